#include "base/data/bpe_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/data/testing/png_file.h"
#include "base/data/text/testing/bpe_files.h"
#include "base/testing/scratch_dir.h"

namespace dp::data {
namespace {

using ::testing::HasSubstr;

TEST(BpeFileTest, FilesAreNamedInErrors) {
  ScratchDir dir;
  const BpeFiles files = BpeFilesWith({"a b"});
  WriteFile(dir.path() / "vocab.json", files.vocabulary);
  WriteFile(dir.path() / "merges.txt", "a z\n");
  const std::string vocabulary = dir.path() / "vocab.json", merges = dir.path() / "merges.txt";
  EXPECT_THAT(OpenBpeTokenizer(vocabulary, merges).status().message(),
              HasSubstr("merges.txt: line 1: 'az'"));
  EXPECT_TRUE(absl::IsNotFound(OpenBpeTokenizer(vocabulary + "x", merges).status()));
  WriteFile(dir.path() / "merges.txt", files.merges);
  EXPECT_TRUE(OpenBpeTokenizer(vocabulary, merges).ok());
}

}  // namespace
}  // namespace dp::data
