#pragma once

#include <string>

#include "absl/time/time.h"

namespace dp::worker {

// The trainer for GPUs.
struct CudaTrainer {
  std::string path;     // empty: it cannot be used on this host
  std::string why_not;  // set if `path` is empty
};

// Looks for dp-trainer-cuda beside `trainer` and runs its self-check on this host. Blocks for at
// most about `patience`.
CudaTrainer FindCudaTrainer(const std::string& trainer, absl::Duration patience);

}  // namespace dp::worker
