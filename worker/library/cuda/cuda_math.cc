#include "worker/library/memory/cuda_math.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cuda/arrays/cuda_batch_norm.h"
#include "worker/engine/device/cuda/arrays/cuda_scale.h"
#include "worker/engine/device/cuda/arrays/cuda_sum.h"
#include "worker/engine/device/cuda/kernels/cuda_cast.h"

namespace dp::library {
namespace {

namespace cuda = engine::cuda;

// Calls `then` with a null pointer of the type that kernels take.
template <typename Then>
cudaError_t WithDeviceFloat(engine::DataType type, const Then& then) {
  switch (type) {
    case engine::DataType::kFloat32:
      return then(static_cast<float*>(nullptr));
    case engine::DataType::kFloat64:
      return then(static_cast<double*>(nullptr));
    case engine::DataType::kFloat16:
      return then(static_cast<half*>(nullptr));
    case engine::DataType::kBfloat16:
      return then(static_cast<cuda::bf16*>(nullptr));
    default:
      DP_CHECK(engine::IsFloat(type));
      return cudaErrorInvalidValue;
  }
}

// The same for elements that are added; whole numbers wrap around without a sign.
template <typename Then>
cudaError_t WithDeviceElement(engine::DataType type, const Then& then) {
  switch (type) {
    case engine::DataType::kInt32:
      return then(static_cast<uint32_t*>(nullptr));
    case engine::DataType::kInt64:
      return then(static_cast<uint64_t*>(nullptr));
    case engine::DataType::kUint8:
      return then(static_cast<uint8_t*>(nullptr));
    default:
      return WithDeviceFloat(type, then);
  }
}

cuda::ChannelArray ArrayOf(const ChannelShape& shape) {
  return {static_cast<int64_t>(shape.samples), static_cast<int64_t>(shape.channels),
          static_cast<int64_t>(shape.positions)};
}

cuda::BatchNormArrays ArraysOf(const BatchNormState& state) {
  return {state.count, state.mean, state.inverse_deviation};
}

class CudaMath : public ArrayMath {
 public:
  CudaMath(int device, void* stream)
      : device_(device), stream_(static_cast<cudaStream_t>(stream)) {}

  absl::Status Convert(engine::ConstElements from, engine::Elements to) override {
    DP_CHECK(from.count() == to.count());
    return Launch("Convert", [&] {
      return WithDeviceFloat(from.type, [&]<typename From>(From*) {
        return WithDeviceFloat(to.type, [&]<typename To>(To*) {
          return cuda::Cast(stream_, reinterpret_cast<const From*>(from.bytes.data()),
                            static_cast<int64_t>(from.count()),
                            reinterpret_cast<To*>(to.bytes.data()));
        });
      });
    });
  }
  absl::Status Scale(engine::Elements values, double factor) override {
    return Launch("Scale", [&] {
      return WithDeviceFloat(values.type, [&]<typename T>(T*) {
        return cuda::Scale(stream_, factor, static_cast<int64_t>(values.count()),
                           reinterpret_cast<T*>(values.bytes.data()));
      });
    });
  }
  absl::Status SumSquares(engine::ConstElements values, absl::Span<double> sums) override {
    return Launch("SumSquares", [&] {
      return WithDeviceFloat(values.type, [&]<typename T>(T*) {
        return cuda::SumSquares(stream_, reinterpret_cast<const T*>(values.bytes.data()),
                                static_cast<int64_t>(values.count()), kSumChunk, sums.data());
      });
    });
  }
  absl::Status Sum(absl::Span<const uint8_t* const> arrays, engine::Elements sum) override {
    static_assert(kSumArraysMax <= cuda::kSumInputsMax);
    DP_CHECK(arrays.size() <= kSumArraysMax);
    return Launch("Sum", [&] {
      return WithDeviceElement(sum.type, [&]<typename T>(T*) {
        return cuda::Sum(stream_, reinterpret_cast<const T* const*>(arrays.data()),
                         static_cast<int>(arrays.size()), static_cast<int64_t>(sum.count()),
                         reinterpret_cast<T*>(sum.bytes.data()));
      });
    });
  }

  size_t Workspace(const ChannelShape& shape) const override {
    return static_cast<size_t>(cuda::BatchNormWorkspace(ArrayOf(shape)));
  }
  absl::Status SumUp(const ChannelShape& shape, const float* values, double* workspace,
                     double* packed) override {
    return Launch("ChannelStatistics", [&] {
      return cuda::ChannelStatistics(stream_, ArrayOf(shape), values, workspace, packed);
    });
  }
  absl::Status Combine(size_t channels, size_t ranks, const double* packed,
                       const BatchNormOptions& options, const BatchNormState& state,
                       float* running_mean, float* running_var) override {
    return Launch("CombineStatistics", [&] {
      return cuda::CombineStatistics(stream_, static_cast<int64_t>(channels),
                                     static_cast<int64_t>(ranks), packed, options.eps,
                                     options.share, ArraysOf(state), running_mean, running_var);
    });
  }
  absl::Status TakeRunning(size_t channels, const float* running_mean, const float* running_var,
                           double eps, const BatchNormState& state) override {
    return Launch("TakeRunning", [&] {
      return cuda::TakeRunning(stream_, static_cast<int64_t>(channels), running_mean, running_var,
                               eps, ArraysOf(state));
    });
  }
  absl::Status Normalize(const ChannelShape& shape, const float* in, const float* weight,
                         const float* bias, const BatchNormState& state, float* out) override {
    return Launch("BatchNormForward", [&] {
      return cuda::BatchNormForward(stream_, ArrayOf(shape), in, weight, bias, ArraysOf(state),
                                    out);
    });
  }
  absl::Status SumGradients(const ChannelShape& shape, const float* in, const float* out_grad,
                            const BatchNormState& state, double* workspace, double* sums) override {
    return Launch("ChannelGradients", [&] {
      return cuda::ChannelGradients(stream_, ArrayOf(shape), in, out_grad, ArraysOf(state),
                                    workspace, sums);
    });
  }
  absl::Status AddGradients(size_t channels, const double* sums, float* weight_grad,
                            float* bias_grad) override {
    return Launch("AddChannelGradients", [&] {
      return cuda::AddChannelGradients(stream_, static_cast<int64_t>(channels), sums, weight_grad,
                                       bias_grad);
    });
  }
  absl::Status InputGradient(const ChannelShape& shape, const float* in, const float* out_grad,
                             const float* weight, const BatchNormState& state, const double* sums,
                             float* in_grad) override {
    return Launch("BatchNormBackward", [&] {
      return cuda::BatchNormBackward(stream_, ArrayOf(shape), in, out_grad, weight, ArraysOf(state),
                                     sums, in_grad);
    });
  }

 private:
  // The runtime that is linked here has a chosen device of its own.
  template <typename Kernel>
  absl::Status Launch(absl::string_view name, const Kernel& kernel) const {
    DP_RETURN_IF_ERROR(FromCudaCall("cudaSetDevice", cudaSetDevice(device_)));
    return FromCudaCall(name, kernel());
  }
  absl::Status FromCudaCall(absl::string_view call, cudaError_t result) const {
    if (result == cudaSuccess) return absl::OkStatus();
    (void)cudaGetLastError();  // for its effect: it clears the thread's last error
    return absl::InternalError(
        absl::StrCat("CUDA: ", call, " on device ", device_, ": ", cudaGetErrorString(result)));
  }

  const int device_;
  const cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<ArrayMath> MakeCudaMath(int device, void* stream) {
  return std::make_unique<CudaMath>(device, stream);
}

}  // namespace dp::library
