#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/device/cuda/cuda_cross_entropy.h"
#include "worker/engine/device/cuda/cuda_data_block.h"
#include "worker/engine/device/cuda/cuda_layers.h"
#include "worker/engine/device/cuda/cuda_memory.h"
#include "worker/engine/device/cuda/cuda_types.h"

namespace dp::engine::cuda {

// Where everything of a compiled network lies on the device. Owned by the network, at one address;
// flat arrays are borrowed.
class NetworkMemory {
 public:
  // `program` outlives it. Errors: ResourceExhausted.
  static absl::StatusOr<NetworkMemory> Allocate(const LayerProgram& program,
                                                absl::Span<const float> values,
                                                absl::Span<float> gradients, cudaStream_t stream);

  // The array of this place in the program; null for kNone.
  template <typename T>
  T* array(ArrayId id) const {
    return static_cast<T*>(Find(id));
  }
  // Of the parameter of this number; null for kNone.
  const float* value(int parameter) const;
  float* gradient(int parameter) const;
  // The value as layers compute with it, in the program's precision.
  template <typename T>
  T* weight(int parameter) const {
    return static_cast<T*>(FindWeight(parameter));
  }

  // All values rounded to bf16, with the padding behind; null in float32.
  bf16* rounded() const { return rounded_.as<bf16>(); }
  const float* values() const { return values_.data(); }
  int64_t values_size() const { return static_cast<int64_t>(values_.size()); }

  const BatchBlock& block() const { return place_; }
  char* batch() const { return batch_.as<char>(); }
  StepInput* step() const { return reinterpret_cast<StepInput*>(batch() + place_.step); }
  LossSums* sums() const { return sums_.as<LossSums>(); }

 private:
  NetworkMemory() = default;
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
