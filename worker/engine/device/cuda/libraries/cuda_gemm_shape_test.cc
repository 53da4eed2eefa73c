#include "worker/engine/device/cuda/libraries/cuda_gemm_shape.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine::cuda {
namespace {

using testing::HasSubstr;
using Values = std::vector<int>;

// The element of op(matrix) as BLAS defines it.
int At(const Values& data, const ColumnMajor& layout, bool transpose, int64_t row, int64_t column) {
  return transpose ? data.at(column + row * layout.stride) : data.at(row + column * layout.stride);
}

// The result of BLAS for these arrays with LayoutsOf(shape).
Values ByColumns(const GemmShape& shape, const Values& a, const Values& b) {
  const GemmLayouts layouts = LayoutsOf(shape);
  Values out(shape.m * shape.n);
  for (int64_t row = 0; row < layouts.out.rows; ++row) {
    for (int64_t column = 0; column < layouts.out.columns; ++column) {
      for (int64_t k = 0; k < shape.k; ++k) {
        out.at(row + column * layouts.out.stride) += At(b, layouts.a, shape.transpose_b, row, k) *
                                                     At(a, layouts.b, shape.transpose_a, k, column);
      }
    }
  }
  return out;
}

Values ByRows(const GemmShape& shape, const Values& a, const Values& b) {
  Values out(shape.m * shape.n);
  for (int64_t m = 0; m < shape.m; ++m) {
    for (int64_t n = 0; n < shape.n; ++n) {
      for (int64_t k = 0; k < shape.k; ++k) {
        out.at(m * shape.n + n) += a.at(shape.transpose_a ? k * shape.m + m : m * shape.k + k) *
                                   b.at(shape.transpose_b ? n * shape.k + k : k * shape.n + n);
      }
    }
  }
  return out;
}

Values Sequence(int64_t size) {
  Values values(size);
  for (int64_t i = 0; i < size; ++i) values[i] = static_cast<int>(i * i % 17 - 5);
  return values;
}

TEST(GemmShapeTest, ProductsByColumnsAreThoseByRows) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const GemmShape shape{3, 5, 4, transpose_a, transpose_b};
      const Values a = Sequence(3 * 4);
      const Values b = Sequence(4 * 5);
      EXPECT_EQ(ByColumns(shape, a, b), ByRows(shape, a, b)) << Describe(shape);
    }
  }
}

TEST(GemmShapeTest, MatricesOfABatchLieOneAfterAnother) {
  const GemmLayouts layouts = LayoutsOf({.m = 3, .n = 5, .k = 4, .batch = 2});
  EXPECT_EQ(layouts.a.batch_stride, 20);
  EXPECT_EQ(layouts.b.batch_stride, 12);
  EXPECT_EQ(layouts.out.batch_stride, 15);
}

TEST(GemmShapeTest, WordsTellShapesApart) {
  EXPECT_EQ(Describe({.m = 1, .n = 2, .k = 3}),
            "gemm m=1 n=2 k=3 nn float32>float32 none align=16");
  EXPECT_EQ(Describe({.m = 1,
                      .n = 2,
                      .k = 3,
                      .transpose_a = true,
                      .in = ElementType::kBfloat16,
                      .epilogue = Epilogue::kBiasGradient,
                      .tf32 = true,
                      .alignment = 4}),
            "gemm m=1 n=2 k=3 tn bfloat16>float32 bias-gradient tf32 align=4");
  EXPECT_EQ(Describe({.m = 1, .n = 2, .k = 3, .transpose_b = true, .batch = 7}),
            "gemm m=1 n=2 k=3 nt float32>float32 none batch=7 align=16");
}

TEST(GemmShapeTest, AProductBesideCollectivesHasANameOfItsOwn) {
  EXPECT_EQ(Describe({.m = 1, .n = 2, .k = 3, .sms = 116}),
            "gemm m=1 n=2 k=3 nn float32>float32 none sms=116 align=16");
}

TEST(GemmShapeTest, CollectivesGetTheirBlocksAndAtMostHalfOfTheCard) {
  EXPECT_EQ(SmsBeside(0, 132), 0);
  EXPECT_EQ(SmsBeside(16, 132), 116);
  EXPECT_EQ(SmsBeside(16, 20), 10);
  EXPECT_EQ(SmsBeside(16, 0), 0);
}

TEST(GemmShapeTest, RefusalsNameWhatDoesNotFit) {
  EXPECT_EQ(WhyNot({.m = 1, .n = 2, .k = 3}), "");
  EXPECT_THAT(WhyNot({.m = 1, .n = 0, .k = 3}), HasSubstr("size below 1"));
  EXPECT_THAT(WhyNot({.m = 1, .n = 12, .k = 3, .epilogue = Epilogue::kBiasGeluAux}),
              HasSubstr("n is 12, but bias-gelu-aux takes multiples of 8"));
  EXPECT_EQ(WhyNot({.m = 1, .n = 16, .k = 3, .epilogue = Epilogue::kBiasGeluAux}), "");
  EXPECT_THAT(WhyNot({.m = 1, .n = 1, .k = 1, .batch = 2, .epilogue = Epilogue::kBias}),
              HasSubstr("batch of 2 with the epilogue bias"));
  EXPECT_THAT(WhyNot({.m = 1, .n = 1, .k = 1, .out = ElementType::kBfloat16}),
              HasSubstr("float32 factors"));
  EXPECT_THAT(WhyNot({.m = 1, .n = 1, .k = 1, .alignment = 12}), HasSubstr("12 bytes"));
}

}  // namespace
}  // namespace dp::engine::cuda
