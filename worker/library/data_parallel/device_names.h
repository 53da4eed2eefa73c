#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "dp/data_parallel.h"

// Which devices and dimensions DataParallel takes. Pure.

namespace dp::library {

// Errors: InvalidArgument the name is none, or has no number. Unimplemented an accelerator.
absl::Status CheckDevice(const std::string& device);
// Also: InvalidArgument none, too many, or one twice.
absl::Status CheckDevices(absl::Span<const std::string> devices);
absl::Status CheckDataParallelOptions(const distributed::DataParallelOptions& options);

}  // namespace dp::library
