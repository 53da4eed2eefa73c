#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/device/cuda/kernels/cuda_gather.h"
#include "worker/engine/device/cuda/network/cuda_device_context.h"
#include "worker/engine/device/cuda/network/cuda_network_memory.h"
#include "worker/engine/device/cuda/runtime/cuda_memory.h"

namespace dp::engine::cuda {

// A data set in a GPU's memory, copied there once. A kernel gathers batches from it by the numbers
// of their samples. Not thread-safe.
class CudaDataset {
 public:
  // Null if `data` is not arrays in memory, or would take too much of the device's memory.
  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<CudaDataset>> Upload(DeviceContext& context,
                                                             const Dataset& data);

  // Queues the gathering of images or tokens, and labels, into `memory`, for the samples in
  // `memory`. May be captured.
  absl::Status Gather(cudaStream_t stream, const LayerProgram& program,
                      const NetworkMemory& memory) const;

  // The address that a captured Gather reads from.
  const void* data() const { return samples_.data(); }

 private:
  CudaDataset() = default;
  absl::Status Copy(DeviceContext& context, const StoredImages& stored, const Dataset& data);
  absl::Status Copy(DeviceContext& context, const StoredTokens& stored, const Dataset& data);
  absl::Status Copy(DeviceContext&, std::monostate, const Dataset&) { return absl::OkStatus(); }

  DeviceBuffer samples_;  // images, or all tokens
  DeviceBuffer beside_;   // labels, or windows
  ImageSet images_;
  TokenSet tokens_;
  bool of_tokens_ = false;
};

}  // namespace dp::engine::cuda
