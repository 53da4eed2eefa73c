#include "worker/engine/data/token_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/data/text/testing/bpe_files.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WriteTokens(const std::string& name, const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "token_dataset_" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string LittleEndian(std::vector<uint32_t> values, int bytes) {
  std::string text;
  for (uint32_t value : values) {
    for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> 8 * i));
  }
  return text;
}

std::string LlmHeader(uint32_t version, uint32_t count) {
  std::vector<uint32_t> words(256);
  words[0] = 20240520;
  words[1] = version;
  words[2] = count;
  return LittleEndian(words, 4);
}

std::string TokenErrorOf(const std::string& bytes) {
  const auto read = ReadTokenFile(WriteTokens("wrong", bytes), TokenFormat::kTokens, 1000);
  EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << read.status();
  return std::string(read.status().message());
}

TEST(TokenFileTest, BytesOfATextAreTokens) {
  EXPECT_THAT(*ReadTokenFile(WriteTokens("text", "a\xff\n"), TokenFormat::kText, 256),
              ElementsAre(97, 255, 10));
}

TEST(TokenDatasetTest, TokensOfAnEncodingTakeThePlaceOfBytes) {
  const data::BpeFiles bpe = data::BpeFilesWith({"a b"});
  TokenDatasetOptions options{.train = {WriteTokens("bpe", "ababab")},
                              .test = {WriteTokens("bpe_test", "xab")},
                              .context = 2,
                              .vocabulary = 257,
                              .bpe_vocabulary = WriteTokens("vocab.json", bpe.vocabulary),
                              .bpe_merges = WriteTokens("merges.txt", bpe.merges)};
  const auto dataset = OpenTokenDataset(options, Split::kTrain);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(), 1);
  std::vector<float> tokens(2);
  std::vector<int32_t> next(2);
  const int64_t sample[] = {0};
  (*dataset)->Gather(sample, absl::MakeSpan(tokens), absl::MakeSpan(next));
  EXPECT_THAT(tokens, ElementsAre(256, 256));
  EXPECT_THAT(next, ElementsAre(256, 256));
  options.vocabulary = 256;
  EXPECT_THAT(OpenTokenDataset(options, Split::kTrain).status().message(),
              HasSubstr("has tokens up to 256, but train.data.vocabulary is 256; make it 257"));
}

TEST(TokenFileTest, ReadsPlainTokensAndThoseBehindAHeader) {
  const std::string tokens = LittleEndian({1, 999, 513}, 2);
  for (const std::string& header : {std::string(), LlmHeader(1, 3)}) {
    EXPECT_THAT(*ReadTokenFile(WriteTokens("bin", header + tokens), TokenFormat::kTokens, 1000),
                ElementsAre(1, 999, 513));
  }
}

TEST(TokenFileTest, SaysWhatIsWrongWithAFile) {
  EXPECT_THAT(TokenErrorOf("abc"), HasSubstr("has 3 bytes, no whole number of 16-bit tokens"));
  EXPECT_THAT(TokenErrorOf(LittleEndian({5, 1000}, 2)),
              HasSubstr("has token 1000 at place 1; of a vocabulary "
                        "of 1000 the last is 999"));
  EXPECT_THAT(TokenErrorOf(LlmHeader(2, 0)), HasSubstr("version 2; expected 1"));
  EXPECT_THAT(TokenErrorOf(LlmHeader(1, 4) + "123456"),
              HasSubstr("6 bytes behind its header, which "
                        "speaks of 4 tokens"));
  EXPECT_THAT(TokenErrorOf(LlmHeader(1, 0).substr(0, 100)),
              HasSubstr("within its header, after 100"));
  EXPECT_THAT(TokenErrorOf(LittleEndian({20240801, 7}, 4)), HasSubstr("32-bit tokens"));
}

TEST(TokenFileTest, AFileThatCannotBeReadIsNamed) {
  const auto missing = ReadTokenFile("/no/such/file", TokenFormat::kText, 256);
  EXPECT_TRUE(absl::IsNotFound(missing.status())) << missing.status();
  EXPECT_THAT(missing.status().message(), HasSubstr("/no/such/file"));
  EXPECT_FALSE(ReadTokenFile(::testing::TempDir(), TokenFormat::kText, 256).ok());
  EXPECT_THAT(*ReadTokenFile(WriteTokens("empty", ""), TokenFormat::kText, 256), ElementsAre());
}

TEST(TokenDatasetTest, WindowsShareTheTokenBetweenThemAndStayInTheirFile) {
  const auto data = *OpenTokenDataset(
      {.train = {WriteTokens("a", "abcdefgh"), WriteTokens("b", "z"), WriteTokens("c", "ABCD")},
       .test = {WriteTokens("d", "1234")},
       .context = 3},
      Split::kTrain);
  ASSERT_EQ(data->size(), 3);
  std::vector<float> tokens(9);
  std::vector<int32_t> labels(9);
  data->Gather({1, 2, 0}, absl::MakeSpan(tokens), absl::MakeSpan(labels));
  EXPECT_THAT(tokens, ElementsAre('d', 'e', 'f', 'A', 'B', 'C', 'a', 'b', 'c'));
  EXPECT_THAT(labels, ElementsAre('e', 'f', 'g', 'B', 'C', 'D', 'b', 'c', 'd'));
  EXPECT_EQ(data->labels_per_sample(), 3);
}

TEST(TokenDatasetTest, WithoutFilesForTheTestATenthIsKeptForIt) {
  const TokenDatasetOptions options = {.train = {WriteTokens("ten", "0123456789012345678x")},
                                       .context = 1};
  EXPECT_EQ((*OpenTokenDataset(options, Split::kTrain))->size(), 17);
  const auto test = *OpenTokenDataset(options, Split::kTest);
  ASSERT_EQ(test->size(), 1);
  std::vector<float> token(1);
  std::vector<int32_t> label(1);
  test->Gather({0}, absl::MakeSpan(token), absl::MakeSpan(label));
  EXPECT_THAT(token, ElementsAre('8'));
  EXPECT_THAT(label, ElementsAre('x'));
}

TEST(TokenDatasetTest, ATextWithoutOneWindowIsRefused) {
  const TokenDatasetOptions options = {.train = {WriteTokens("short", "0123456789")}, .context = 9};
  EXPECT_THAT(OpenTokenDataset(options, Split::kTrain).status().message(),
              HasSubstr("would give 9 tokens and not one window of context + 1 = 10"));
}

}  // namespace
}  // namespace dp::engine
