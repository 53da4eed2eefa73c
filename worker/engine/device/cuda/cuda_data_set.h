#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/device/cuda/cuda_device_context.h"
#include "worker/engine/device/cuda/cuda_gather.h"
#include "worker/engine/device/cuda/cuda_memory.h"
#include "worker/engine/device/cuda/cuda_network_memory.h"

namespace dp::engine::cuda {

// A data set in the memory of a GPU, copied there once, from which a kernel gathers batches by the
// numbers of their samples. Not thread-safe.
class CudaDataset {
 public:
  // Null where `data` is not arrays in memory or would take too much of the device's.
  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<CudaDataset>> Upload(DeviceContext& context,
                                                             const Dataset& data);

  // Queues what brings images or tokens and labels of the samples that lie in `memory` there. May
  // be captured.
  absl::Status Gather(cudaStream_t stream, const LayerProgram& program,
                      const NetworkMemory& memory) const;

  // What a captured Gather reads from.
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
