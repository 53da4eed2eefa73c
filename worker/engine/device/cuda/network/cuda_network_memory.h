#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/kernels/cuda_types.h"
#include "worker/engine/device/cuda/layers/cuda_layers.h"
#include "worker/engine/device/cuda/losses/cuda_loss_output.h"
#include "worker/engine/device/cuda/network/cuda_data_block.h"
#include "worker/engine/device/cuda/runtime/cuda_memory.h"

namespace dp::engine::cuda {

// Where all arrays of a compiled network lie on the device. Owned by the network, at one address.
// Flat arrays are borrowed.
class NetworkMemory {
 public:
  // `program` outlives the memory. Errors: ResourceExhausted.
  static absl::StatusOr<NetworkMemory> Allocate(const LayerProgram& program,
                                                absl::Span<const float> values,
                                                absl::Span<float> gradients, cudaStream_t stream);

  // Fills the arrays between operations, and the images, with random numbers about as large as a
  // step's.
  absl::Status FillAtRandom(cudaStream_t stream);

  // The program's array of this id; null for kNone.
  template <typename T>
  T* array(ArrayId id) const {
    return static_cast<T*>(Find(id));
  }
  // The value and the gradient of a parameter; null for kNone.
  const float* value(int parameter) const;
  float* gradient(int parameter) const;
  // The value as layers compute with it, in the program's precision.
  template <typename T>
  T* weight(int parameter) const {
    return static_cast<T*>(FindWeight(parameter));
  }

  // All values rounded to bf16, followed by the padding; null in other precisions.
  bf16* rounded() const { return rounded_.as<bf16>(); }
  const float* values() const { return values_.data(); }
  int64_t values_size() const { return static_cast<int64_t>(values_.size()); }

  const BatchBlock& block() const { return place_; }
  char* batch() const { return batch_.as<char>(); }
  StepInput* step() const { return reinterpret_cast<StepInput*>(batch() + place_.step); }
  LossSums* sums() const { return sums_.as<LossSums>(); }

 private:
  NetworkMemory() = default;
  template <typename T>
  absl::Status FillArraysOf(cudaStream_t stream);
  void* Find(ArrayId id) const;
  void* FindWeight(int parameter) const;

  const LayerProgram* program_ = nullptr;
  absl::Span<const float> values_;
  absl::Span<float> gradients_;
  Arena arena_;
  BatchBlock place_;
  DeviceBuffer batch_;
  DeviceBuffer rounded_;
  DeviceBuffer sums_;
};

}  // namespace dp::engine::cuda
