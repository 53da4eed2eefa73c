#include "worker/engine/device/cuda/images/cuda_mean_pooling.h"
#include "worker/engine/device/cuda/images/cuda_pooling.h"
#include "worker/engine/device/cuda/kernels/cuda_column_sums.h"
#include "worker/engine/device/cuda/kernels/cuda_gather.h"
#include "worker/engine/device/cuda/testing/cuda_testing.h"

namespace dp::engine::cuda {
namespace {

template <typename T>
using CudaImageTest = CudaPrecisionTest<T>;
TYPED_TEST_SUITE(CudaImageTest, Precisions);

CpuTwin PoolingTwin(PoolingShape shape, bool relu_gradient) {
  return CpuTwin(model::MaxPool2d{shape.kernel, shape.stride, shape.padding},
                 {shape.channels, shape.in_rows, shape.in_columns},
                 {shape.channels, shape.out_rows(), shape.out_columns()},
                 static_cast<int>(shape.samples), {.pooled_relu = relu_gradient});
}

TYPED_TEST(CudaImageTest, MaxPoolIsTheCpus) {
  for (PoolingShape shape : {PoolingShape{3, 16, 28, 28, 2, 2}, PoolingShape{2, 3, 9, 7, 3, 2},
                             PoolingShape{2, 4, 10, 11, 3, 1}, PoolingShape{1, 5, 8, 8, 2, 3},
                             PoolingShape{2, 8, 9, 8, 3, 2, 1}, PoolingShape{1, 3, 5, 4, 5, 1, 2},
                             PoolingShape{1, 2, 1, 1, 2, 1, 1}}) {
    for (const bool relu : {false, true}) {
      for (const bool plain : {false, true}) {
        shape.plain = plain;
        const int64_t in_places = int64_t{shape.in_rows} * shape.in_columns;
        const int64_t out_places = int64_t{shape.out_rows()} * shape.out_columns();
        const auto out_order = [&](const std::vector<float>& values) {
          return plain ? values : ChannelsLast(values, shape.channels, out_places);
        };
        auto in = RandomValues<TypeParam>(shape.in_size(), 1);
        if (relu) {
          for (float& value : in) value = std::max(value, 0.0f);
        }
        const auto out_gradient = RandomValues<TypeParam>(shape.out_size(), 2);
        CpuTwin twin = PoolingTwin(shape, relu);
        const auto device_in = OnDevice<TypeParam>(ChannelsLast(in, shape.channels, in_places));
        const auto device_gradient = OnDevice<TypeParam>(out_order(out_gradient));
        DeviceArray<TypeParam> out(shape.out_size()), in_gradient(shape.in_size());
        DeviceArray<uint8_t> places(shape.out_size());
        this->Finish(
            MaxPoolForward(this->stream(), device_in.data(), shape, out.data(), places.data()));
        EXPECT_EQ(out.ReadFloats(), out_order(twin.Forward(in, {})));
        this->Finish(MaxPoolBackward(this->stream(), device_gradient.data(), places.data(),
                                     relu ? out.data() : nullptr, shape, in_gradient.data()));
        ExpectNear(in_gradient,
                   ChannelsLast(twin.Backward(out_gradient), shape.channels, in_places));
      }
    }
  }
}

TYPED_TEST(CudaImageTest, MeanPoolIsTheCpus) {
  struct Case {
    model::LayerKind kind;
    MeanPoolingShape shape;
  };
  const auto sliding = [](int64_t in, int64_t out) {
    return model::PoolAxis{.in = in, .out = out, .kernel = 3, .stride = 2, .padding = 1};
  };
  for (const Case& each :
       {Case{model::AvgPool2d{3, 2, 1}, {2, 8, sliding(10, 5), sliding(7, 4)}},
        Case{model::AvgPool2d{3, 2, 1}, {1, 3, sliding(3, 2), sliding(8, 4)}},
        Case{model::AdaptiveAvgPool2d{1, 1}, {3, 16, {.in = 7, .out = 1}, {.in = 7, .out = 1}}},
        Case{model::AdaptiveAvgPool2d{3, 5}, {2, 4, {.in = 8, .out = 3}, {.in = 8, .out = 5}}},
        Case{model::AdaptiveAvgPool2d{7, 2}, {2, 5, {.in = 3, .out = 7}, {.in = 4, .out = 2}}}}) {
    const MeanPoolingShape& shape = each.shape;
    const int64_t ins = shape.rows.in * shape.columns.in;
    const int64_t outs = shape.rows.out * shape.columns.out;
    const auto in = RandomValues<TypeParam>(shape.in_size(), 1);
    const auto out_gradient = RandomValues<TypeParam>(shape.out_size(), 2);
    CpuTwin twin(each.kind, {shape.channels, shape.rows.in, shape.columns.in},
                 {shape.channels, shape.rows.out, shape.columns.out},
                 static_cast<int>(shape.samples));
    const auto device_in = OnDevice<TypeParam>(ChannelsLast(in, shape.channels, ins));
    const auto gradient = OnDevice<TypeParam>(ChannelsLast(out_gradient, shape.channels, outs));
    DeviceArray<TypeParam> out(shape.out_size()), in_gradient(shape.in_size());
    this->Finish(MeanPoolForward(this->stream(), device_in.data(), shape, out.data()));
    ExpectNear(out, ChannelsLast(twin.Forward(in, {}), shape.channels, outs));
    this->Finish(MeanPoolBackward(this->stream(), gradient.data(), shape, in_gradient.data()));
    ExpectNear(in_gradient, ChannelsLast(twin.Backward(out_gradient), shape.channels, ins));
  }
}

TYPED_TEST(CudaImageTest, SumsColumnsToTheSameBitsEachTime) {
  for (const Matrix shape : {Matrix{1, 1}, Matrix{7, 10}, Matrix{5000, 16}, Matrix{3001, 33},
                             Matrix{700, 3072}, Matrix{64, 9001}}) {
    const auto in = RandomValues<TypeParam>(shape.size(), 1);
    // The sums replace what is there.
    const std::vector<float> before = RandomValues<float>(shape.columns, 2);
    const auto device = OnDevice<TypeParam>(in);
    const auto sums = OnDevice<float>(before);
    DeviceArray<float> workspace(ColumnSumsWorkspace(shape));
    this->Finish(ColumnSums(this->stream(), device.data(), shape, workspace.data(), sums.data()));
    std::vector<double> exact(shape.columns);
    for (int64_t i = 0; i < shape.size(); ++i) exact[i % shape.columns] += in[i];
    ExpectNear(sums, std::vector<float>(exact.begin(), exact.end()));
    DeviceArray<float> again(shape.columns);
    this->Finish(ColumnSums(this->stream(), device.data(), shape, workspace.data(), again.data()));
    EXPECT_EQ(again.Read(), sums.Read());
  }
}

TYPED_TEST(CudaImageTest, SumsColumnsBehindARelu) {
  for (const Matrix shape : {Matrix{9, 10}, Matrix{5000, 32}}) {
    auto out = RandomValues<TypeParam>(shape.size(), 1);
    auto gradient = RandomValues<TypeParam>(shape.size(), 2);
    const auto device_out = OnDevice<TypeParam>(out);
    const auto device_gradient = OnDevice<TypeParam>(gradient);
    DeviceArray<float> workspace(ColumnSumsWorkspace(shape)), sums(shape.columns);
    this->Finish(ReluBackwardColumnSums(this->stream(), device_out.data(), shape, workspace.data(),
                                        device_gradient.data(), sums.data()));
    std::vector<double> exact(shape.columns);
    for (int64_t i = 0; i < shape.size(); ++i) {
      if (!(out[i] > 0)) gradient[i] = 0;
      exact[i % shape.columns] += gradient[i];
    }
    EXPECT_EQ(device_gradient.ReadFloats(), gradient);
    ExpectNear(sums, std::vector<float>(exact.begin(), exact.end()));
  }
}

TYPED_TEST(CudaImageTest, SumsChannelsBehindARelu) {
  for (const Matrix shape : {Matrix{3, 2}, Matrix{200, 33}}) {
    constexpr int64_t kPlaces = 49;
    auto out = RandomValues<TypeParam>(shape.size() * kPlaces, 1);
    auto gradient = RandomValues<TypeParam>(shape.size() * kPlaces, 2);
    const auto device_out = OnDevice<TypeParam>(out);
    const auto device_gradient = OnDevice<TypeParam>(gradient);
    DeviceArray<float> sums(shape.columns);
    this->Finish(ReluBackwardChannelSums(this->stream(), device_out.data(), shape, kPlaces,
                                         device_gradient.data(), sums.data()));
    std::vector<double> exact(shape.columns);
    for (size_t i = 0; i < out.size(); ++i) {
      if (!(out[i] > 0)) gradient[i] = 0;
      exact[i / kPlaces % shape.columns] += gradient[i];
    }
    EXPECT_EQ(device_gradient.ReadFloats(), gradient);
    ExpectNear(sums, std::vector<float>(exact.begin(), exact.end()));
  }
}

TYPED_TEST(CudaImageTest, GathersImagesInTheOrderOfTheSampler) {
  constexpr int64_t kPixels = 300;
  std::vector<uint8_t> images(5 * kPixels);
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<uint8_t>(i * 37);
  const std::vector<uint8_t> labels = {9, 8, 7, 6, 5};
  const std::vector<int64_t> samples = {4, 0, 3, 0};
  std::vector<float> expected(4 * kPixels);
  for (int64_t i = 0; i < 3 * kPixels; ++i) {
    const uint8_t pixel = images[samples[i / kPixels] * kPixels + i % kPixels];
    expected[i] = (static_cast<float>(pixel) / 255.0f - 0.2860f) / 0.3530f;
  }
  const DeviceArray<uint8_t> device_images(images), device_labels(labels);
  const DeviceArray<int64_t> device_samples(samples);
  DeviceArray<TypeParam> out(4 * kPixels);
  DeviceArray<int32_t> out_labels(4);
  const ImageSet set = {device_images.data(), device_labels.data(), kPixels, 0.2860f, 0.3530f};
  this->Finish(GatherImages(this->stream(), set, device_samples.data(), 4, this->Step({.count = 3}),
                            out.data(), out_labels.data()));
  EXPECT_EQ(out.ReadFloats(), RoundedValues<TypeParam>(expected));
  EXPECT_THAT(out_labels.Read(), ::testing::ElementsAre(5, 9, 6, 0));
}

TEST_F(CudaTest, GathersTokensWithWhatFollows) {
  const DeviceArray<uint16_t> tokens(std::vector<uint16_t>{10, 11, 12, 13, 14, 50, 51, 65535});
  const DeviceArray<int64_t> windows(std::vector<int64_t>{0, 2, 5});
  const DeviceArray<int64_t> samples(std::vector<int64_t>{2, 1, 0});
  DeviceArray<int32_t> out(6), labels(6);
  Finish(GatherTokens(stream(), {tokens.data(), windows.data(), 2}, samples.data(), 3,
                      Step({.count = 2}), out.data(), labels.data()));
  EXPECT_THAT(out.Read(), ::testing::ElementsAre(50, 51, 12, 13, 0, 0));
  EXPECT_THAT(labels.Read(), ::testing::ElementsAre(51, 65535, 13, 14, 0, 0));
}

}  // namespace
}  // namespace dp::engine::cuda
