#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dp::library {

// A device of this process.
struct Device {
  std::string name = "cpu";  // that of a GPU has its number
  std::optional<int> gpu = std::nullopt;
};

// How many GPUs this process sees, at least one; `what` asks. Errors: Unimplemented CUDA's runtime
// cannot be loaded, or finds no GPU.
absl::StatusOr<int> CountGpus(absl::string_view what);

// "cuda" is the calling thread's GPU. Errors: those of ParseDevice. Unimplemented CUDA's runtime
// cannot be loaded, or finds no GPU. InvalidArgument there is no GPU of this number.
absl::StatusOr<Device> FindDevice(const std::string& name);

// All GPUs that the process sees; the one of number `first` comes first. Errors: as FindDevice.
absl::StatusOr<std::vector<Device>> AllGpus(int first);

}  // namespace dp::library
