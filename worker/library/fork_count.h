#pragma once

#include <cstdint>

namespace dp::library {

// How many forks have led to this process since the first call. An object that was made at another
// count is of a process before this one. Its threads are not here, and its sockets and shared
// memory serve that process. Thread-safe, and as cheap as an atomic.
uint64_t ForkCount();

}  // namespace dp::library
