#include "server/parameters/version_file.h"

#include <fstream>
#include <string>

#include "base/checksum/crc32c.h"
#include "base/limits.h"
#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

class VersionFileTest : public ::testing::Test {
 protected:
  // Writes a version with these data, in chunks, and arrays behind them.
  absl::Status Write(const std::string& data, const std::string& arrays = "") {
    auto draft = VersionDraft::Create(scratch_.path() / "1.new");
    EXPECT_TRUE(draft.ok()) << draft.status();
    uint32_t crc = 0;
    for (size_t at = 0; at < data.size(); at += kParameterChunkBytes) {
      const std::string chunk = data.substr(at, kParameterChunkBytes);
      crc = ExtendCrc32c(crc, chunk);
      if (const absl::Status added = draft->AppendChunk(chunk, crc); !added.ok()) return added;
    }
    parameters::StoredVersion description;
    description.set_request_id("a");
    if (!arrays.empty()) {
      EXPECT_TRUE(draft->AppendArrays(arrays).ok());
      description.mutable_table()->add_arrays("velocity");
    }
    return draft->Place(description, path_);
  }
  std::string Content() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Replace(const std::string& content) const {
    std::ofstream(path_, std::ios::binary) << content;
  }

  const ScratchDir scratch_;
  const std::filesystem::path path_ = scratch_.path() / "1.params";
};

std::string Data(size_t size) {
  std::string data(size, '\0');
  for (size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i * 7 + i / 251);
  return data;
}

TEST_F(VersionFileTest, WhatWasWrittenIsRead) {
  const std::string data = Data(2 * kParameterChunkBytes + 5), arrays = Data(1000);
  ASSERT_EQ(Write(data, arrays), absl::OkStatus());
  const auto reader = VersionReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->description().version().bytes(), data.size());
  EXPECT_EQ(reader->description().version().crc32c(), ExtendCrc32c(0, data));
  ASSERT_EQ(reader->chunks(), 3);
  std::string read;
  for (int i = 0; i < 3; ++i) read += *reader->Chunk(i, /*check=*/true);
  EXPECT_TRUE(read == data);
  std::string read_arrays(arrays.size(), '\0');
  EXPECT_EQ(reader->ReadArrays(absl::MakeSpan(read_arrays)), absl::OkStatus());
  EXPECT_TRUE(read_arrays == arrays);
}

TEST_F(VersionFileTest, AChunkThatDoesNotMatchItsChecksumIsRejected) {
  auto draft = VersionDraft::Create(scratch_.path() / "1.new");
  const absl::Status added = draft->AppendChunk("abc", ExtendCrc32c(0, "abd"));
  EXPECT_EQ(added.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(added.message(), HasSubstr("chunk 0 was damaged on its way"));
}

TEST_F(VersionFileTest, ADraftThatIsNotPlacedLeavesNothing) {
  { const auto draft = VersionDraft::Create(scratch_.path() / "1.new"); }
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

TEST_F(VersionFileTest, AFileCutAnywhereIsNoVersion) {
  ASSERT_EQ(Write(Data(100)), absl::OkStatus());
  const std::string whole = Content();
  for (size_t size = 0; size < whole.size(); ++size) {
    Replace(whole.substr(0, size));
    EXPECT_EQ(VersionReader::Open(path_).status().code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST_F(VersionFileTest, OneFlippedBitIsFound) {
  ASSERT_EQ(Write(Data(60), Data(20)), absl::OkStatus());
  const std::string whole = Content();
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    Replace(damaged);
    const auto reader = VersionReader::Open(path_);
    std::string arrays(20, '\0');
    const bool whole_again = reader.ok() && reader->Chunk(0, /*check=*/true).ok() &&
                             reader->ReadArrays(absl::MakeSpan(arrays)).ok();
    EXPECT_FALSE(whole_again) << bit;
  }
}

}  // namespace
}  // namespace dp::server
