#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dp::library {

// A device of this process.
struct Device {
  std::string name = "cpu";  // that of a GPU has its number
  std::optional<int> gpu = std::nullopt;
};

// "cuda" is the calling thread's GPU. Errors: those of ParseDevice. Unimplemented CUDA's runtime
// cannot be loaded, or finds no GPU. InvalidArgument there is no GPU of this number.
absl::StatusOr<Device> FindDevice(const std::string& name);

// All GPUs that the process sees; the one of number `first` comes first. Errors: as FindDevice.
absl::StatusOr<std::vector<Device>> AllGpus(int first);

}  // namespace dp::library
