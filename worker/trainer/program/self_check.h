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
  // Returns what was found, for example "2.28.9". Errors: why it cannot be used.
  std::function<absl::StatusOr<std::string>()> look;
  std::string remedy;  // if it cannot be used
};

// Checks every need and writes one line for each: "nccl: 2.28.9", or "driver: missing: REASON;
// REMEDY". Returns the exit code: 0 if all can be used, else 1.
int SelfCheck(const std::vector<Need>& needs, std::ostream& out);

// The driver, the device, the libraries, and this program's GPU engine. All are looked up at run
// time, so the check also works on hosts that have none of them.
std::vector<Need> CudaNeeds();

}  // namespace dp::trainer
