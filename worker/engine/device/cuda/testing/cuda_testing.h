#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "worker/engine/device/cpu/cpu_layer.h"
#include "worker/engine/device/cuda/kernels/cuda_types.h"
#include "worker/engine/device/cuda/runtime/cuda_memory.h"
#include "worker/engine/device/cuda/runtime/cuda_stream.h"

// Shared by the tests that compare kernels with their CPU twins. Without a device the tests are
// skipped.

namespace dp::engine::cuda {

// `value` as T holds it, and back to float.
template <typename T>
T Rounded(float value);
template <>
float Rounded<float>(float value);
template <>
bf16 Rounded<bf16>(float value);
float Widened(float value);
float Widened(bf16 value);

// The values as T holds them.
template <typename T>
std::vector<float> RoundedValues(std::vector<float> values) {
  for (float& value : values) value = Widened(Rounded<T>(value));
  return values;
}

// Uniform in (-1, 1), exact in T.
template <typename T>
std::vector<float> RandomValues(int64_t size, uint64_t seed);

// Reorders images of `channels` x `places` to channels last.
std::vector<float> ChannelsLast(const std::vector<float>& in, int64_t channels, int64_t places);

// An array on the device for the length of a test. A call returns only when its data is there:
// copies run on the default stream, and the tests' streams do not wait for that stream.
template <typename T>
class DeviceArray {
 public:
  // Fills with bytes of 0xff, which are NaNs, so that elements which a kernel does not write show.
  explicit DeviceArray(int64_t size) : size_(size), buffer_(*DeviceBuffer::Allocate(Bytes())) {
    DP_CHECK(cudaMemset(buffer_.data(), 0xff, Bytes()) == cudaSuccess);
    AwaitDefaultStream();
  }
  explicit DeviceArray(const std::vector<T>& values)
      : DeviceArray(static_cast<int64_t>(values.size())) {
    Write(values);
  }

  T* data() const { return buffer_.as<T>(); }
  void Write(const std::vector<T>& values) {
    DP_CHECK(static_cast<int64_t>(values.size()) == size_);
    DP_CHECK(cudaMemcpy(data(), values.data(), Bytes(), cudaMemcpyHostToDevice) == cudaSuccess);
    AwaitDefaultStream();
  }
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    DP_CHECK(cudaMemcpy(values.data(), data(), Bytes(), cudaMemcpyDeviceToHost) == cudaSuccess);
    return values;
  }
  std::vector<float> ReadFloats() const {
    std::vector<float> floats;
    for (T value : Read()) floats.push_back(Widened(value));
    return floats;
  }

 private:
  int64_t Bytes() const { return size_ * static_cast<int64_t>(sizeof(T)); }
  static void AwaitDefaultStream() { DP_CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess); }

  const int64_t size_;
  DeviceBuffer buffer_;
};

template <typename T>
DeviceArray<T> OnDevice(const std::vector<float>& values) {
  std::vector<T> rounded;
  for (float value : values) rounded.push_back(Rounded<T>(value));
  return DeviceArray<T>(rounded);
}

class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override;

  cudaStream_t stream() const { return stream_.get(); }
  // Checks the result of a launch, and waits until the kernel is done.
  void Finish(cudaError_t launched);
  // The host's input for a step, on the device; good until the next call.
  const StepInput* Step(const StepInput& step);

 private:
  Stream stream_;
  std::unique_ptr<DeviceArray<StepInput>> step_;
};

// Runs a test in each precision.
template <typename T>
class CudaPrecisionTest : public CudaTest {};
using Precisions = ::testing::Types<float, bf16>;

// The error of each of `actual` is at most `relative` times the sum of |expected| and a tenth of
// the largest |expected|. Values that are small next to their summands have lost more digits.
void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected,
                double relative);
// How exactly T rounds results.
template <typename T>
constexpr double Precision() {
  return sizeof(T) == 2 ? 1.0 / 128 : 1e-5;
}
template <typename T>
void ExpectNear(const DeviceArray<T>& actual, const std::vector<float>& expected) {
  ExpectNear(actual.ReadFloats(), expected, Precision<T>());
}

// A layer as the CPU computes it, on plain arrays in PyTorch's order of axes.
class CpuTwin {
 public:
  // The kind must not be an Add.
  CpuTwin(model::LayerKind kind, model::Shape in, model::Shape out, int batch_size,
          const CpuLayerOptions& options = {});

  std::vector<float> Forward(const std::vector<float>& in, const Batch& batch,
                             Mode mode = Mode::kTrain);
  // The gradient of the input.
  std::vector<float> Backward(const std::vector<float>& out_gradient);

 private:
  CpuStream cpu_;
  const model::CheckedLayer layer_;
  const int batch_size_;
  Activation in_;
  std::unique_ptr<CpuLayer> twin_;
};

}  // namespace dp::engine::cuda
