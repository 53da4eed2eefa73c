#pragma once

#include <cstddef>

namespace dp {

// The soft limit for a program that this process starts: `wanted`, at most the hard limit and at
// least the soft limit of this process.
size_t DescriptorLimitFor(size_t wanted);

// Raises the soft limit of this process to the hard limit, and returns the new limit. If that fails
// the limit stays, and fewer clients can connect. Child processes inherit the limit.
size_t RaiseDescriptorLimit();

}  // namespace dp
