#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "dp/data_parallel.h"

// Which devices and dimensions DataParallel takes. Pure: whether a GPU exists is another question.

namespace dp::library {

// Where outputs are gathered. Errors: those of ParseDevice.
absl::Status CheckDevice(const std::string& device);
// CPUs or GPUs. Errors: also InvalidArgument none, too many, one twice, both kinds, or a CPU
// without a number.
absl::Status CheckDevices(absl::Span<const std::string> devices);
absl::Status CheckDataParallelOptions(const distributed::DataParallelOptions& options);

}  // namespace dp::library
