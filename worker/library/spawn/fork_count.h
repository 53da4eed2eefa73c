#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace dp::library {

// How many forks have led to this process since the first call. An object that was made at another
// count is of a process before this one. Its threads are not here, and its sockets and shared
// memory serve that process. Thread-safe, and as cheap as an atomic.
uint64_t ForkCount();

// Keeps an object of the process before a fork for good. The earlier process still uses what the
// object holds. The destructor would tell peers, or wait for threads that are not here.
// Thread-safe.
void LeaveToParent(std::shared_ptr<void> held);

// Throws kWrongState: `context` was joined by the process before a fork.
[[noreturn]] void ThrowInFork(const std::string& context);

}  // namespace dp::library
