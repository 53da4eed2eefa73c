#include "worker/engine/device/cuda/kernels/cuda_launch.h"

#include <gtest/gtest.h>

#include "worker/engine/device/cuda/kernels/cuda_column_chunks.h"

namespace dp::engine::cuda {
namespace {

TEST(CudaLaunchTest, DividesUp) {
  EXPECT_EQ(DivideUp(0, 8), 0);
  EXPECT_EQ(DivideUp(8, 8), 1);
  EXPECT_EQ(BlocksFor(9, 8), 2u);
}

TEST(CudaLaunchTest, FewRowsAreOneChunk) {
  const Chunks chunks = CutRows(10, 64, 500);
  EXPECT_EQ(chunks.rows_per_chunk, 64);
  EXPECT_EQ(chunks.count, 1);
}

TEST(CudaLaunchTest, ChunksCoverAllRowsAndNoneIsEmpty) {
  for (int64_t rows : {1, 63, 64, 65, 1000, 65536, 1000003}) {
    for (int64_t most : {1, 3, 264, 528}) {
      const Chunks chunks = CutRows(rows, 64, most);
      EXPECT_LE(chunks.count, most);
      EXPECT_GE(chunks.count * chunks.rows_per_chunk, rows);
      EXPECT_LT((chunks.count - 1) * chunks.rows_per_chunk, rows);
    }
  }
}

TEST(CudaLaunchTest, ColumnsOfALongMatrixFillACardAndFewRowsAreOneChunk) {
  // A residual of GPT-2: three tiles of columns.
  EXPECT_EQ(ColumnChunks(65536, 768).count, 176);
  // With 16 channels a block has two threads across and 128 down.
  EXPECT_EQ(ColumnThreads(16, 8), 2);
  EXPECT_EQ(ColumnChunks(128 * 196, 16).rows_per_chunk, 1024);
  EXPECT_EQ(ColumnChunks(256, 128).count, 1);
  EXPECT_EQ(ColumnChunks(257, 128).count, 3);
  EXPECT_EQ(ColumnChunks(64, 1024 * 768).count, 1);
}

TEST(CudaLaunchTest, BlocksOfAReluRunAllAtOnceOnAnH100) {
  for (const int64_t columns : {768, 1024, 3072}) {
    const int64_t tiles = DivideUp(columns, 256);
    const int64_t blocks = ColumnChunks(65536, columns, kReluColumnBlocks).count * tiles;
    EXPECT_LE(blocks, 396) << columns;
    EXPECT_GT(blocks, 380) << columns;
  }
  EXPECT_EQ(ColumnChunks(65536, 16, kReluColumnBlocks).count, 64);  // rows enough for a block each
}

// A ReLU's sums use the memory of plain sums.
TEST(CudaLaunchTest, AReluHasNoMoreChunksThanAPlainSum) {
  for (const int64_t rows : {1, 257, 1000, 25088, 65536, 1000003}) {
    for (const int64_t columns : {1, 16, 64, 300, 768, 50257}) {
      EXPECT_LE(ColumnChunks(rows, columns, kReluColumnBlocks).count,
                ColumnChunks(rows, columns).count);
      EXPECT_EQ(ColumnChunks(rows, columns, kReluColumnBlocks).count == 1,
                ColumnChunks(rows, columns).count == 1);
    }
  }
}

}  // namespace
}  // namespace dp::engine::cuda
