#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace dp::library {

// A device as a program names it: "cpu:0", "cuda:0"; also "cpu" and "cuda", without a number.
struct DeviceName {
  bool is_gpu = false;
  std::optional<int> number;
};

// Pure. Errors: InvalidArgument the name is none. Unimplemented another accelerator.
absl::StatusOr<DeviceName> ParseDevice(const std::string& name);

}  // namespace dp::library
