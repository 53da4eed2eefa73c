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

}  // namespace
}  // namespace dp::engine::cuda
