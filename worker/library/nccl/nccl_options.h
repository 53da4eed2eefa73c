#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "worker/library/init_method.h"

namespace dp::library {

// The GPU of a rank, and the CUDA stream on which the program computes.
struct NcclPlace {
  std::optional<int> device;  // else LOCAL_RANK's, else 0
  void* stream = nullptr;
};

// Pure but for `variables`. Errors: InvalidArgument names the option or the variable.
absl::StatusOr<int> DeviceOf(const NcclPlace& place, const Variables& variables);

// Whether a wait for an operation on GPU memory blocks until its end: NCCL_BLOCKING_WAIT, also with
// TORCH_ before it. Pure but for `variables`. Errors: InvalidArgument a value is unknown, or
// NCCL_ASYNC_ERROR_HANDLING is on too.
absl::StatusOr<bool> BlockingWaitOf(const Variables& variables);

}  // namespace dp::library
