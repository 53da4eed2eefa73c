#include "base/data/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/data/idx_file.h"
#include "base/data/npy_file.h"
#include "base/data/testing/png_file.h"
#include "base/data/text/testing/bpe_files.h"
#include "base/testing/scratch_dir.h"

namespace dp::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConvertTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (dir_.path() / name).string(); }
  std::string Write(const std::string& name, const std::string& bytes) const {
    WriteFile(dir_.path() / name, bytes);
    return path(name);
  }
  std::string Bytes(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }
  static std::vector<float> Row(const Rows& rows, int64_t row) {
    std::vector<float> values(static_cast<size_t>(rows.elements()));
    rows.Read(row, absl::MakeSpan(values));
    return values;
  }

  ScratchDir dir_;
};

TEST_F(ConvertTest, IdxBecomesNpyAndIdxAgain) {
  const std::string idx =
      std::string("\0\0\x0b\2\0\0\0\2\0\0\0\2", 12) + std::string("\0\1\xff\xfe\1\0\0\4", 8);
  const std::string from = Write("a-idx2-short", idx);
  ASSERT_EQ(Convert(from, path("a.npy")), absl::OkStatus());
  const auto rows = ReadNpy(path("a.npy"));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->shape(), (model::Shape{2}));
  EXPECT_THAT(Row(*rows, 0), ElementsAre(1, -2));
  EXPECT_THAT(Row(*rows, 1), ElementsAre(256, 4));
  EXPECT_EQ(Bytes("a.npy").size() % 64, 8u);  // the elements begin at a multiple of 64
  ASSERT_EQ(Convert(path("a.npy"), path("b-idx2-short")), absl::OkStatus());
  EXPECT_EQ(Bytes("b-idx2-short"), idx);
}

TEST_F(ConvertTest, ATableBecomesFloatsInEitherFormat) {
  const std::string from = Write("a.csv", "x,y\n1,2.5\n3,-4\n");
  ASSERT_EQ(Convert(from, path("train-images-idx2-float")), absl::OkStatus());
  const auto rows = ReadIdx(path("train-images-idx2-float"));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(Row(*rows, 1), ElementsAre(3, -4));
  ASSERT_EQ(Convert(from, path("a.npy")), absl::OkStatus());
  EXPECT_THAT(Row(*ReadNpy(path("a.npy")), 0), ElementsAre(1, 2.5));
}

TEST_F(ConvertTest, ATextBecomesATokenForEachByte) {
  ASSERT_EQ(Convert(Write("a.txt", "a\xff"), path("a.bin")), absl::OkStatus());
  EXPECT_EQ(Bytes("a.bin"), std::string("a\0\xff\0", 4));
}

TEST_F(ConvertTest, AFileThatIsNoTextBecomesNoTokens) {
  const auto error = [&](const std::string& name, const std::string& bytes) {
    return std::string(Convert(Write(name, bytes), path("a.bin")).message());
  };
  EXPECT_THAT(error("a.npy", "\x93NUMPY rest"), HasSubstr("a.npy is NPY file, and no text"));
  EXPECT_THAT(error("a.txt", std::string("wo\0rds", 6)),
              HasSubstr("a.txt is a file with a byte 0 at place 2, and no text"));
  EXPECT_EQ(error("b.txt", "1,2\n3,4\n"), "");  // a table is a text, too
}

TEST_F(ConvertTest, ATextBecomesTheTokensOfAnEncoding) {
  const BpeFiles files = BpeFilesWith({"a b", "ab ab"});
  const ConvertOptions options{.to_tokens = true,
                               .bpe_vocabulary = Write("vocab.json", files.vocabulary),
                               .bpe_merges = Write("merges.txt", files.merges)};
  ASSERT_EQ(Convert(Write("a.txt", "abab!"), path("tokens"), options), absl::OkStatus());
  EXPECT_EQ(Bytes("tokens"), std::string("\x01\x01\0\0", 4));  // 257, and 0 for !
  ConvertOptions half = options;
  half.bpe_merges.clear();
  EXPECT_THAT(Convert(path("a.txt"), path("b.bin"), half).message(), HasSubstr("give both"));
  const std::string table = Write("t.csv", "1,2\n");
  ConvertOptions encoding = options;
  encoding.to_tokens = false;
  EXPECT_THAT(Convert(table, path("t.npy"), encoding).message(), HasSubstr("only tokens are"));
}

TEST_F(ConvertTest, TheNameMustFitTheSamples) {
  const std::string from = Write("a.csv", "1,2\n");
  EXPECT_THAT(Convert(from, path("b-idx3-ubyte")).message(),
              HasSubstr("the samples are 2 axes of float32; give a name that ends in -idx2-float"));
  EXPECT_THAT(Convert(from, path("b")).message(), HasSubstr("give a name that ends in .npy"));
  EXPECT_THAT(Convert(Write("a.txt", "words"), path("b.npy")).message(),
              HasSubstr("a.txt is text; only IDX, NPY and CSV files are converted"));
}

TEST_F(ConvertTest, NoFileIsOverwrittenAndNoneIsLeftIncomplete) {
  const std::string from = Write("a.csv", "1,2\n"), there = Write("b.npy", "x");
  EXPECT_TRUE(absl::IsAlreadyExists(Convert(from, there)));
  EXPECT_EQ(Bytes("b.npy"), "x");
  EXPECT_FALSE(Convert(from, path("none/b.npy")).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.path()), {}), 2);
}

}  // namespace
}  // namespace dp::data
