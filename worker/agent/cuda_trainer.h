#pragma once

#include <string>

#include "absl/time/time.h"

namespace dp::worker {

// The trainer for GPUs.
struct CudaTrainer {
  std::string path;     // empty: it cannot be used here
  std::string why_not;  // then
};

// Looks for dp-trainer-cuda beside `trainer` and has it check this host, which may take `patience`.
// Blocks for as long.
CudaTrainer FindCudaTrainer(const std::string& trainer, absl::Duration patience);

}  // namespace dp::worker
