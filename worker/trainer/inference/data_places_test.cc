#include "worker/trainer/inference/data_places.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// The data with these places, in protobuf's text form; or the error.
std::string With(const std::string& data, const std::string& places) {
  auto taken = Parse<v1::DataSpec>(data);
  const absl::Status status = TakePlaces(Parse<v1::DataPlaces>(places), taken);
  return status.ok() ? taken.ShortDebugString() : std::string(status.message());
}

TEST(DataPlacesTest, ADirectoryTakesThePlaceOfTheJobs) {
  EXPECT_EQ(With("kind: 'images' dir: '/job' validation: 0.2", "data: '/test'"),
            "dir: \"/test\" kind: \"images\" validation: 0.2");
  EXPECT_EQ(With("kind: 'images' dir: '/job'", ""), "dir: \"/job\" kind: \"images\"");
  EXPECT_EQ(With("kind: 'images'", ""),
            "nothing says where the test set is; give its directory with --data");
}

TEST(DataPlacesTest, AFileIsWhollyForTheTest) {
  EXPECT_EQ(With("kind: 'csv' train: '/a' test: '/b' validation: 0.2", "data: '/test'"),
            "kind: \"csv\" test: \"/test\"");
  EXPECT_EQ(With("kind: 'text' train: '/a'", ""), "kind: \"text\" train: \"/a\"");
  EXPECT_THAT(With("kind: 'tokens'", ""), HasSubstr("give its file with --data"));
}

TEST(DataPlacesTest, ArraysHaveInputsAndAnswers) {
  EXPECT_EQ(With("kind: 'arrays'", "data: '/x' targets: '/t'"),
            "kind: \"arrays\" arrays { test { inputs: \"/x\" targets: \"/t\" } }");
  EXPECT_THAT(With("kind: 'arrays'", "data: '/x'"), HasSubstr("give both"));
  EXPECT_THAT(With("kind: 'arrays'", ""), HasSubstr("give its NPY files with --data"));
}

TEST(DataPlacesTest, PlacesOfOtherKindsAreRefused) {
  EXPECT_EQ(With("kind: 'csv'", "data: '/x' labels: '/l'"),
            "--labels does not go with a model of data of kind csv; leave it out");
  EXPECT_THAT(With("kind: 'synthetic'", "data: '/x'"), HasSubstr("--data does not go with"));
  EXPECT_THAT(With("kind: 'text' test: '/a'", "bpe_vocab: '/v'"),
              HasSubstr("--bpe-vocab does not go with"));
}

TEST(DataPlacesTest, AnEncodingNeedsItsFiles) {
  EXPECT_THAT(With("kind: 'text' test: '/a' bpe {}", ""),
              HasSubstr("give the files of their encoding with --bpe-vocab"));
  EXPECT_EQ(With("kind: 'text' test: '/a' bpe {}", "bpe_vocab: '/v' bpe_merges: '/m'"),
            "kind: \"text\" test: \"/a\" bpe { vocab: \"/v\" merges: \"/m\" }");
}

}  // namespace
}  // namespace dp::trainer
