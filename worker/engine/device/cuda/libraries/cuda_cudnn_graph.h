#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/libraries/cuda_element_type.h"

namespace dp::engine::cuda {

// A descriptor of cuDNN's backend API: created, given attributes, finalized once, then only read.
// Remembers its first error, which Finalize returns. Not thread-safe.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;  // only to be assigned to
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept { Swap(other); }
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    Swap(other);
    return *this;
  }

  template <typename Value>
  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const Value& value) {
    SetAll(name, type, 1, &value);
  }
  template <typename Value>
  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           absl::Span<const Value> values) {
    SetAll(name, type, static_cast<int64_t>(values.size()), values.data());
  }
  void Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& descriptor) {
    Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, descriptor.get());
  }
  // Errors: Unimplemented cuDNN does not support what the descriptor describes; ResourceExhausted
  // memory is short; Internal otherwise.
  absl::Status Finalize();

  // Reads one value of a finalized descriptor. Returns false if it has none.
  template <typename Value>
  bool Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, Value* value) const {
    int64_t count = 0;
    return cudnnBackendGetAttribute(descriptor_, name, type, 1, &count, value) ==
               CUDNN_STATUS_SUCCESS &&
           count == 1;
  }

  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  void SetAll(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
              const void* values);
  void Swap(CudnnDescriptor& other) {
    std::swap(descriptor_, other.descriptor_);
    std::swap(status_, other.status_);
  }

  cudnnBackendDescriptor_t descriptor_ = nullptr;
  absl::Status status_;
};

// The card that plans are built for. It is the card of `handle`; where `handle` is null, `card`
// describes it, a CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR whose plans are not run here.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t card = nullptr;
};

// The sizes of four axes, and for each the elements from one index to the next.
struct TensorLayout {
  std::array<int64_t, 4> sizes = {};
  std::array<int64_t, 4> strides = {};

  friend bool operator==(const TensorLayout&, const TensorLayout&) = default;
};

// A dense layout, the last axis fastest.
TensorLayout Dense(const std::array<int64_t, 4>& sizes);

cudnnDataType_t CudnnType(ElementType type);

// Operations on tensors of four axes, computed in float32. cuDNN computes them as one piece if it
// has an engine for them. Remembers the first error, which Finish returns. Not thread-safe.
class CudnnGraph {
 public:
  // A tensor's unique number in its graph.
  using Tensor = int64_t;

  // A tensor in device memory, aligned to 16 bytes.
  Tensor Stored(const TensorLayout& layout, cudnnDataType_t type);
  // The same in float32, for the sums of a product whose thread blocks add their parts atomically.
  // The order of the additions, and with it the last bits, differ from run to run.
  Tensor StoredSums(const TensorLayout& layout);
  // A tensor only between two operations, which need not be in memory at any time.
  Tensor Virtual(const TensorLayout& layout, cudnnDataType_t type);
  Tensor Scalar(float value);

  void Matmul(Tensor a, Tensor b, Tensor to);
  void Pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor to);
  void Pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor to);
  // to = x where `condition`, else b.
  void Select(Tensor condition, Tensor x, Tensor b, Tensor to);
  // to = each element's index along `axis`; `x` gives the shape.
  void Index(int64_t axis, Tensor x, Tensor to);
  // Reduces over the axes whose size is 1 in `to`.
  void Reduce(cudnnReduceTensorOp_t op, Tensor x, Tensor to);
  // to = the elements of x, with the layout of `to`.
  void Reshape(Tensor x, Tensor to);

  // Two-dimensional cross-correlations. Axes are samples or outputs, channels, rows, columns.
  struct Window {
    using Pair = std::array<int64_t, 2>;  // along rows and along columns
    Pair strides = {1, 1};
    Pair padding = {0, 0};
    Pair dilations = {1, 1};
  };
  void ConvolveForward(const Window& window, Tensor in, Tensor weight, Tensor out);
  void ConvolveBackwardData(const Window& window, Tensor out_gradient, Tensor weight,
                            Tensor in_gradient);
  void ConvolveBackwardFilter(const Window& window, Tensor in, Tensor out_gradient,
                              Tensor weight_gradient);

  absl::Status Finish(const CudnnTarget& target);

  const CudnnDescriptor& operations() const { return finished_; }
  // In the order in which they were made.
  absl::Span<const Tensor> stored() const { return stored_; }
  bool adds_atomically() const { return adds_atomically_; }
  struct ScalarValue {
    Tensor tensor;
    float value;
  };
  const std::vector<ScalarValue>& scalars() const { return scalars_; }

 private:
  enum class Home { kMemory, kNowhere, kHost };
  Tensor Make(const TensorLayout& layout, cudnnDataType_t type, Home home);
  CudnnDescriptor MakePointwise(cudnnPointwiseMode_t mode);
  CudnnDescriptor MakeWindow(const Window& window);
  CudnnDescriptor BeginPointwise(const CudnnDescriptor& mode, Tensor x, Tensor to);
  const CudnnDescriptor& at(Tensor tensor) const { return tensors_.at(tensor); }
  // Finalizes the descriptor, and keeps it as long as the graph.
  const CudnnDescriptor& Keep(CudnnDescriptor descriptor);
  void AddOperation(CudnnDescriptor operation);

  absl::Status status_;
  std::vector<CudnnDescriptor> tensors_;  // by number
  std::vector<Tensor> stored_;
  std::vector<ScalarValue> scalars_;
  bool adds_atomically_ = false;
  std::deque<CudnnDescriptor> kept_;  // descriptors that operations refer to
  std::vector<CudnnDescriptor> operations_;
  CudnnDescriptor finished_;
};

}  // namespace dp::engine::cuda
