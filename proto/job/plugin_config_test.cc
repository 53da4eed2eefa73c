#include "proto/job/plugin_config.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/job/testing/parsed_job.h"

namespace dp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

google::protobuf::Struct ConfigOf(const std::string& yaml) {
  return Parsed(kMinimal, {"train.model={plugin: {library: /l.so, config: " + yaml + "}}"})
      .spec.train()
      .model()
      .plugin()
      .config();
}

// "path=type number text" of each value.
std::vector<std::string> Flat(const google::protobuf::Struct& config) {
  constexpr const char* kTypes[] = {"null", "flag", "number", "text", "list", "mapping"};
  const auto values = PluginConfig(config);
  EXPECT_TRUE(values.ok()) << values.status();
  std::vector<std::string> flat;
  for (const model::PluginValue& value : *values) {
    flat.push_back(absl::StrCat(value.path, "=", kTypes[static_cast<int>(value.type)], " ",
                                value.number, " ", value.text));
  }
  return flat;
}

std::string ConfigErrorOf(const google::protobuf::Struct& config) {
  return std::string(PluginConfig(config).status().message());
}

TEST(PluginConfigTest, ValuesHavePathsInTheOrderOfKeys) {
  EXPECT_THAT(Flat(ConfigOf("{scale: 2.5, on: true, init: {std: 1e-2, kind: normal}, name: '7'}")),
              ElementsAre("init=mapping 2 ", "init.kind=text 0 normal", "init.std=number 0.01 ",
                          "name=text 0 7", "on=flag 1 ", "scale=number 2.5 "));
  EXPECT_THAT(Flat(ConfigOf("{widths: [3, [4]], none: null}")),
              ElementsAre("none=null 0 ", "widths=list 2 ", "widths[0]=number 3 ",
                          "widths[1]=list 1 ", "widths[1][0]=number 4 "));
  EXPECT_THAT(Flat({}), ElementsAre());
}

TEST(PluginConfigTest, KeysAreWords) {
  EXPECT_EQ(ConfigErrorOf(ConfigOf("{a: {b.c: 1}}")),
            "config.a has the key 'b.c'; a key is of letters, digits, '_' and '-'");
}

TEST(PluginConfigTest, NumbersAreFiniteAndTextsPlain) {
  google::protobuf::Struct config;
  (*config.mutable_fields())["a"].set_number_value(std::numeric_limits<double>::infinity());
  EXPECT_THAT(ConfigErrorOf(config), HasSubstr("config.a is inf; give a finite number"));
  (*config.mutable_fields())["a"].set_string_value(std::string("x\0y", 3));
  EXPECT_THAT(ConfigErrorOf(config), HasSubstr("config.a is a text with a 0"));
  (*config.mutable_fields())["a"].clear_kind();
  EXPECT_THAT(ConfigErrorOf(config), HasSubstr("config.a has no value"));
}

TEST(PluginConfigTest, DepthAndSizeAreBounded) {
  google::protobuf::Struct deep;
  google::protobuf::Struct* inner = &deep;
  for (int i = 0; i < kPluginConfigDepthMax; ++i) {
    inner = (*inner->mutable_fields())["a"].mutable_struct_value();
  }
  EXPECT_THAT(ConfigErrorOf(deep), HasSubstr("is nested more than 16 levels deep"));
  google::protobuf::Struct wide;
  for (int i = 0; i < kPluginConfigValuesMax; ++i) {
    (*wide.mutable_fields())[absl::StrCat("a", i)].set_number_value(i);
  }
  EXPECT_EQ(ConfigErrorOf(wide), "");
  (*wide.mutable_fields())["b"].set_number_value(1);
  EXPECT_THAT(ConfigErrorOf(wide), HasSubstr("config has more than 1000 values"));
}

}  // namespace
}  // namespace dp
