#include "worker/library/memory/cuda_math.h"

#include <cmath>
#include <functional>
#include <vector>

#include "worker/engine/collectives/reduce/convert.h"
#include "worker/engine/device/cuda/testing/cuda_testing.h"
#include "worker/library/memory/host_math.h"

// The kernels against the loops that define them.

namespace dp::library {
namespace {

using engine::ConstElements;
using engine::DataType;
using engine::Elements;
using engine::cuda::CudaTest;
using engine::cuda::DeviceArray;
using engine::cuda::RandomValues;
using ::testing::DoubleNear;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr DataType kFloats[] = {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16,
                                DataType::kBfloat16};

// Random values of a type, as bytes.
std::vector<uint8_t> BytesOf(DataType type, size_t count, size_t seed = 7) {
  std::vector<float> values = RandomValues<float>(static_cast<int64_t>(count), seed);
  std::vector<uint8_t> bytes(count * engine::SizeOf(type));
  engine::Convert(ConstElements(absl::MakeConstSpan(values)), {type, absl::MakeSpan(bytes)});
  return bytes;
}

// The same for whole numbers too, which are any bits: their sums wrap around.
std::vector<uint8_t> AnyBytes(DataType type, size_t count, size_t seed) {
  std::vector<uint8_t> bytes = BytesOf(DataType::kFloat32, 2 * count, 7 + seed);
  if (engine::IsFloat(type)) bytes = BytesOf(type, count, 7 + seed);
  bytes.resize(count * engine::SizeOf(type));
  return bytes;
}

class CudaMathTest : public CudaTest {
 protected:
  // The math of the test's stream.
  ArrayMath& Math() {
    if (math_ == nullptr) math_ = MakeCudaMath(0, stream());
    return *math_;
  }
  void Await(const absl::Status& status) {
    ASSERT_TRUE(status.ok()) << status;
    Finish(cudaSuccess);
  }

  HostMath host_;

 private:
  std::unique_ptr<ArrayMath> math_;
};

TEST_F(CudaMathTest, ConvertsBetweenAllFloats) {
  constexpr size_t kCount = 1003;
  for (const DataType from : kFloats) {
    const std::vector<uint8_t> bytes = BytesOf(from, kCount);
    const DeviceArray<uint8_t> in(bytes);
    for (const DataType to : kFloats) {
      if (from == to) continue;
      std::vector<uint8_t> expected(kCount * engine::SizeOf(to));
      ASSERT_TRUE(host_.Convert({from, bytes}, {to, absl::MakeSpan(expected)}).ok());
      const DeviceArray<uint8_t> out(static_cast<int64_t>(expected.size()));
      Await(Math().Convert({from, {in.data(), bytes.size()}}, {to, {out.data(), expected.size()}}));
      EXPECT_EQ(out.Read(), expected) << engine::NameOf(from) << " to " << engine::NameOf(to);
    }
  }
}

TEST_F(CudaMathTest, ScalesAlsoWhereNoWordBegins) {
  constexpr size_t kCount = 1003;
  for (const DataType type : kFloats) {
    for (const size_t skipped : {size_t{0}, engine::SizeOf(type)}) {
      std::vector<uint8_t> expected = BytesOf(type, kCount);
      const DeviceArray<uint8_t> values(expected);
      const size_t bytes = expected.size() - skipped;
      ASSERT_TRUE(host_.Scale({type, absl::MakeSpan(expected).subspan(skipped)}, 0.3).ok());
      Await(Math().Scale({type, {values.data() + skipped, bytes}}, 0.3));
      EXPECT_EQ(values.Read(), expected) << engine::NameOf(type);
    }
  }
}

TEST_F(CudaMathTest, SumsTheSquaresOfEachChunk) {
  const size_t count = 2 * kSumChunk + 77;
  for (const DataType type : kFloats) {
    const std::vector<uint8_t> bytes = BytesOf(type, count);
    std::vector<double> expected(3);
    ASSERT_TRUE(host_.SumSquares({type, bytes}, absl::MakeSpan(expected)).ok());
    const DeviceArray<uint8_t> values(bytes);
    const DeviceArray<double> sums(3);
    Await(Math().SumSquares({type, {values.data(), bytes.size()}}, {sums.data(), 3}));
    EXPECT_THAT(sums.Read(), Pointwise(DoubleNear(1e-7), expected)) << engine::NameOf(type);
  }
}

// Every number of arrays has another tree, and 16-bit floats are rounded once. The sum goes into
// the first array, as a gradient's does.
TEST_F(CudaMathTest, SumsOfAllTypesHaveTheBitsOfTheHost) {
  constexpr size_t kCount = 300;
  for (const DataType type :
       {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBfloat16,
        DataType::kInt32, DataType::kInt64, DataType::kUint8}) {
    std::vector<std::vector<uint8_t>> arrays;
    for (size_t i = 0; i < kSumArraysMax; ++i) arrays.push_back(AnyBytes(type, kCount, i));
    for (size_t count = 1; count <= kSumArraysMax; ++count) {
      std::vector<uint8_t> expected = arrays[0];
      std::vector<const uint8_t*> inputs = {expected.data()};
      std::vector<DeviceArray<uint8_t>> on_device;
      for (size_t i = 0; i < count; ++i) on_device.emplace_back(arrays[i]);
      std::vector<const uint8_t*> device_inputs = {on_device[0].data()};
      for (size_t i = 1; i < count; ++i) {
        inputs.push_back(arrays[i].data());
        device_inputs.push_back(on_device[i].data());
      }
      ASSERT_TRUE(host_.Sum(inputs, {type, absl::MakeSpan(expected)}).ok());
      Await(Math().Sum(device_inputs, {type, {on_device[0].data(), expected.size()}}));
      ASSERT_EQ(on_device[0].Read(), expected) << engine::NameOf(type) << ", " << count;
    }
  }
}

// Forward and backward of a batch whose two halves are those of two ranks.
void ExpectBatchNormAsOnTheHost(ArrayMath& math, const ChannelShape& shape,
                                const std::function<void(const absl::Status&)>& await) {
  HostMath host;
  const auto size = static_cast<int64_t>(shape.size()),
             channels = static_cast<int64_t>(shape.channels);
  const size_t packed_size = 1 + 2 * shape.channels;
  const std::vector<float> in = RandomValues<float>(size, 1), slopes = RandomValues<float>(size, 2),
                           weight = RandomValues<float>(channels, 3),
                           bias = RandomValues<float>(channels, 4);
  const auto near = [](const std::vector<float>& expected) {
    return Pointwise(FloatNear(2e-6f), expected);
  };

  std::vector<double> packed(2 * packed_size), state(packed_size), sums(2 * shape.channels);
  std::vector<float> mean(shape.channels), var(shape.channels, 1), out(in.size()),
      in_grad(in.size()), weight_grad(shape.channels, 1), bias_grad(shape.channels, 2);
  const auto state_in = [&](double* doubles) {
    return BatchNormState{doubles, doubles + 1, doubles + 1 + shape.channels};
  };
  const BatchNormOptions options{.eps = 1e-5, .share = 0.1};
  (void)host.SumUp(shape, in.data(), nullptr, packed.data());
  (void)host.SumUp(shape, slopes.data(), nullptr, packed.data() + packed_size);
  (void)host.Combine(shape.channels, 2, packed.data(), options, state_in(state.data()), mean.data(),
                     var.data());
  (void)host.Normalize(shape, in.data(), weight.data(), bias.data(), state_in(state.data()),
                       out.data());
  (void)host.SumGradients(shape, in.data(), slopes.data(), state_in(state.data()), nullptr,
                          sums.data());
  (void)host.AddGradients(shape.channels, sums.data(), weight_grad.data(), bias_grad.data());
  (void)host.InputGradient(shape, in.data(), slopes.data(), weight.data(), state_in(state.data()),
                           sums.data(), in_grad.data());

  const DeviceArray<float> d_in(in), d_slopes(slopes), d_weight(weight), d_bias(bias), d_out(size),
      d_in_grad(size), d_mean(std::vector<float>(shape.channels)),
      d_var(std::vector<float>(shape.channels, 1)),
      d_weight_grad(std::vector<float>(shape.channels, 1)),
      d_bias_grad(std::vector<float>(shape.channels, 2));
  const DeviceArray<double> d_packed(static_cast<int64_t>(packed.size())),
      d_state(static_cast<int64_t>(state.size())), d_sums(static_cast<int64_t>(sums.size())),
      d_work(static_cast<int64_t>(math.Workspace(shape)));
  const BatchNormState d_arrays = state_in(d_state.data());
  await(math.SumUp(shape, d_in.data(), d_work.data(), d_packed.data()));
  await(math.SumUp(shape, d_slopes.data(), d_work.data(), d_packed.data() + packed_size));
  await(math.Combine(shape.channels, 2, d_packed.data(), options, d_arrays, d_mean.data(),
                     d_var.data()));
  await(math.Normalize(shape, d_in.data(), d_weight.data(), d_bias.data(), d_arrays, d_out.data()));
  await(math.SumGradients(shape, d_in.data(), d_slopes.data(), d_arrays, d_work.data(),
                          d_sums.data()));
  await(math.AddGradients(shape.channels, d_sums.data(), d_weight_grad.data(), d_bias_grad.data()));
  await(math.InputGradient(shape, d_in.data(), d_slopes.data(), d_weight.data(), d_arrays,
                           d_sums.data(), d_in_grad.data()));
  EXPECT_THAT(d_packed.Read(), Pointwise(DoubleNear(1e-9), packed));
  EXPECT_THAT(d_state.Read(), Pointwise(DoubleNear(1e-9), state));
  EXPECT_THAT(d_mean.Read(), near(mean));
  EXPECT_THAT(d_var.Read(), near(var));
  EXPECT_THAT(d_out.Read(), near(out));
  EXPECT_THAT(d_weight_grad.Read(), Pointwise(FloatNear(1e-3f), weight_grad));
  EXPECT_THAT(d_bias_grad.Read(), Pointwise(FloatNear(1e-3f), bias_grad));
  EXPECT_THAT(d_in_grad.Read(), near(in_grad));

  (void)host.TakeRunning(shape.channels, mean.data(), var.data(), 1e-3, state_in(state.data()));
  await(math.TakeRunning(shape.channels, d_mean.data(), d_var.data(), 1e-3, d_arrays));
  state[0] = 0;  // no count: evaluation has none
  std::vector<double> running = d_state.Read();
  running[0] = 0;
  EXPECT_THAT(running, Pointwise(DoubleNear(1e-6), state));
}

TEST_F(CudaMathTest, BatchNormIsThatOfTheHost) {
  const auto await = [this](const absl::Status& status) { Await(status); };
  // Rows of one value, rows longer than a block, several chunks.
  for (const ChannelShape& shape :
       {ChannelShape{6, 5, 1}, ChannelShape{3, 2, 7}, ChannelShape{4, 3, 600},
        ChannelShape{9, 1, 1001}, ChannelShape{10001, 2, 1}}) {
    SCOPED_TRACE(testing::Message()
                 << shape.samples << "x" << shape.channels << "x" << shape.positions);
    ExpectBatchNormAsOnTheHost(Math(), shape, await);
  }
}

}  // namespace
}  // namespace dp::library
