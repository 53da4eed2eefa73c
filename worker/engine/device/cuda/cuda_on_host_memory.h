#pragma once

#include <cstddef>

namespace dp::engine::cuda::on_host {

// Whether these bytes lie in one array that the runtime on the host has given as the device's
// memory. So a test sees host memory that was taken for it, or the other way round. Thread-safe.
bool IsDeviceMemory(const void* memory, size_t bytes);

}  // namespace dp::engine::cuda::on_host
