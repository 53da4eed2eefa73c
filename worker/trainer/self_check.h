#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dp::trainer {

// Something that a host must have for a trainer to work there.
struct Need {
  std::string name;
  // What there is of it, as "2.28.9". Errors: why it cannot be used.
  std::function<absl::StatusOr<std::string>()> look;
  std::string remedy;  // where it cannot
};

// Looks for each and writes a line about it: "nccl: 2.28.9", or "driver: missing: REASON; REMEDY".
// Returns the exit code: 0 where all can be used, else 1.
int SelfCheck(const std::vector<Need>& needs, std::ostream& out);

// Driver, device, libraries and the part of this program that computes on GPUs. Asked at run time,
// so that it can be looked for where nothing of it is.
std::vector<Need> CudaNeeds();

}  // namespace dp::trainer
