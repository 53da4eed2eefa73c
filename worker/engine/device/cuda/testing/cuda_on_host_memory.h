#pragma once

#include <cstddef>

namespace dp::engine::cuda::on_host {

// Whether these bytes lie in one array that the runtime on the host has allocated as device memory.
// Tests thus detect host memory that is used as device memory, or the reverse. Thread-safe.
bool IsDeviceMemory(const void* memory, size_t bytes);

}  // namespace dp::engine::cuda::on_host
