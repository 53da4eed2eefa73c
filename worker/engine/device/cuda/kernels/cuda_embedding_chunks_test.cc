#include "worker/engine/device/cuda/kernels/cuda_embedding_chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/random.h"

namespace dp::engine::cuda {
namespace {

using Sums = std::map<int32_t, int64_t>;

// Goes over the sorted tokens as the kernels do. A row's gradient is its place, counted from 1.
class EmbeddingChunksTest : public ::testing::Test {
 protected:
  Sums Run(const std::vector<int32_t>& tokens) {
    rows_ = static_cast<int64_t>(tokens.size());
    sums_.clear();
    parts_.assign(EmbeddingChunks(rows_) * kEmbeddingParts, kUnwritten);
    for (int64_t chunk = 0; chunk < EmbeddingChunks(rows_); ++chunk) SumChunk(tokens, chunk);
    for (int64_t chunk = 0; chunk < EmbeddingChunks(rows_); ++chunk) SumLongRun(tokens, chunk);
    return sums_;
  }

  static Sums Expected(const std::vector<int32_t>& tokens) {
    Sums sums;
    for (size_t i = 0; i < tokens.size(); ++i) sums[tokens[i]] += static_cast<int64_t>(i) + 1;
    return sums;
  }

 private:
  static constexpr int64_t kUnwritten = int64_t{1} << 60;  // spoils every sum it gets into

  void SumChunk(const std::vector<int32_t>& tokens, int64_t index) {
    const EmbeddingChunk chunk(tokens.data(), rows_, index);
    bool began_before = chunk.BeginsInside();
    int64_t sum = 0;
    for (int64_t place = chunk.begin; place < chunk.end; ++place) {
      sum += place + 1;
      const bool ends = chunk.EndsRun(place);
      if (!ends && place + 1 < chunk.end) continue;
      if (began_before) {
        parts_[index * kEmbeddingParts + kHeadPart] = sum;
      } else if (ends) {
        sums_[tokens[place]] += sum;
      } else {
        parts_[index * kEmbeddingParts + kTailPart] = sum;
      }
      sum = 0;
      began_before = false;
    }
  }

  void SumLongRun(const std::vector<int32_t>& tokens, int64_t index) {
    const EmbeddingChunk chunk(tokens.data(), rows_, index);
    if (!chunk.BeginsLongRun()) return;
    const int32_t token = tokens[chunk.end - 1];
    int64_t sum = parts_[index * kEmbeddingParts + kTailPart];
    for (int64_t begin = chunk.end; begin < rows_ && tokens[begin] == token;
         begin += kEmbeddingChunk) {
      sum += parts_[++index * kEmbeddingParts + kHeadPart];
    }
    sums_[token] += sum;
  }

  int64_t rows_ = 0;
  Sums sums_;
  std::vector<int64_t> parts_;
};

TEST_F(EmbeddingChunksTest, RunsInsideOfChunks) {
  const std::vector<int32_t> tokens = {1, 1, 4, 9, 9, 9};
  EXPECT_EQ(Run(tokens), Expected(tokens));
}

TEST_F(EmbeddingChunksTest, OneRunOverManyChunks) {
  const std::vector<int32_t> tokens(10 * kEmbeddingChunk + 3, 7);
  EXPECT_EQ(Run(tokens), Expected(tokens));
}

TEST_F(EmbeddingChunksTest, RunsThatEndWithAChunk) {
  std::vector<int32_t> tokens(2 * kEmbeddingChunk, 1);
  tokens.insert(tokens.end(), kEmbeddingChunk, 2);
  tokens.insert(tokens.end(), kEmbeddingChunk + 1, 3);
  EXPECT_EQ(Run(tokens), Expected(tokens));
}

TEST_F(EmbeddingChunksTest, RandomRuns) {
  constexpr uint64_t kSeed = 42;
  uint64_t state = kSeed;
  for (int round = 0; round < 200; ++round) {
    std::vector<int32_t> tokens(NextRandom(state) % 500 + 1);
    const uint64_t vocabulary = NextRandom(state) % 20 + 1;
    for (int32_t& token : tokens) token = static_cast<int32_t>(NextRandom(state) % vocabulary);
    std::sort(tokens.begin(), tokens.end());
    EXPECT_EQ(Run(tokens), Expected(tokens)) << "seed " << kSeed << " round " << round;
  }
}

}  // namespace
}  // namespace dp::engine::cuda
