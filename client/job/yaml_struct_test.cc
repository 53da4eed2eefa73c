#include "client/job/yaml_struct.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/job/job_file.h"
#include "google/protobuf/struct.pb.h"

namespace dp::client {
namespace {

using ::testing::HasSubstr;

google::protobuf::Struct ReadStruct(const std::string& yaml) {
  google::protobuf::Struct read;
  const absl::Status status = SetStruct(YAML::Load(yaml), read);
  EXPECT_TRUE(status.ok()) << status;
  return read;
}

std::string StructErrorOf(const std::string& yaml) {
  google::protobuf::Struct read;
  return std::string(SetStruct(YAML::Load(yaml), read).message());
}

TEST(YamlStructTest, PlainScalarsHaveTheirTypes) {
  const auto read = ReadStruct("{n: -1.5e2, t: true, z: null, s: .inf, w: word, q: '3', e: }");
  EXPECT_EQ(read.fields().at("n").number_value(), -150);
  EXPECT_TRUE(read.fields().at("t").bool_value());
  EXPECT_TRUE(read.fields().at("z").has_null_value());
  EXPECT_EQ(read.fields().at("s").string_value(), ".inf");
  EXPECT_EQ(read.fields().at("w").string_value(), "word");
  EXPECT_EQ(read.fields().at("q").string_value(), "3");
  EXPECT_TRUE(read.fields().at("e").has_null_value());
}

TEST(YamlStructTest, ListsAndMappingsNest) {
  const auto read = ReadStruct("{a: [1, {b: []}]}");
  const auto& list = read.fields().at("a").list_value();
  EXPECT_EQ(list.values(0).number_value(), 1);
  EXPECT_TRUE(list.values(1).struct_value().fields().at("b").has_list_value());
  EXPECT_TRUE(ReadStruct("").fields().empty());
}

TEST(YamlStructTest, OtherFormsAreErrorsWithTheirPath) {
  EXPECT_EQ(StructErrorOf("[1]"), " is a list; expected a mapping of names to values");
  EXPECT_EQ(StructErrorOf("{a: {[1]: 2}}"), ".a has the key a list; expected a word");
  EXPECT_EQ(StructErrorOf("{a: 1, a: 2}"), " has 'a' twice; keep one");
}

TEST(YamlStructTest, AnAliasCannotTakeAllMemory) {
  std::string yaml = "a0: [x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string below = "*b" + std::to_string(i - 1) + ", ";
    yaml += "a" + std::to_string(i) + ": &b" + std::to_string(i) + " [" +
            (i == 1 ? "y, y" : below + below + below + below + below + "y") + "]\n";
  }
  EXPECT_THAT(StructErrorOf(yaml), HasSubstr("has more than 1000 values"));
  std::string deep = "x";
  for (int i = 0; i < 20; ++i) deep = "{a: " + deep + "}";
  EXPECT_THAT(StructErrorOf(deep), HasSubstr("is nested more than 16 levels deep"));
}

TEST(YamlStructTest, AnErrorInAJobFileHasItsPlace) {
  const std::string text =
      "apiVersion: dp/v1\nkind: Job\nname: a\ntrain:\n  model:\n    plugin:\n      config: [1]\n";
  EXPECT_EQ(ParseJobFile(text, "job.yaml").status().message(),
            "job.yaml:7:15: train.model.plugin.config is a list; expected a mapping of names to "
            "values");
}

}  // namespace
}  // namespace dp::client
