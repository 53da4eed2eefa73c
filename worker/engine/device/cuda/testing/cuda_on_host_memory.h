#pragma once

#include <cstddef>
#include <cstdint>

namespace dp::engine::cuda::on_host {

// Whether these bytes lie in one array that the runtime on the host has allocated as device memory.
// Tests thus detect host memory that is used as device memory, or the reverse. Thread-safe.
bool IsDeviceMemory(const void* memory, size_t bytes);

// How many bytes of device memory are allocated. Thread-safe.
int64_t DeviceBytes();
// From now on the runtime reports so much free memory. Thread-safe.
void SetFreeMemory(int64_t bytes);
inline constexpr int64_t kFreeMemory = int64_t{1} << 30;  // until a test sets it
// From now on the runtime refuses page-locked memory, or has it again. Thread-safe.
void RefusePinnedMemory(bool refuse);

}  // namespace dp::engine::cuda::on_host
