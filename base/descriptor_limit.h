#pragma once

#include <cstddef>

namespace dp {

// How many descriptors this process may have open: its soft limit. Programs that it starts inherit
// the limit.
size_t DescriptorLimit();

// The soft limit for a program that this process starts: `wanted`, at most the hard limit, and
// never below the soft limit of this process.
size_t DescriptorLimitFor(size_t wanted);

// Raises it as far as the administrator allows. Where that fails it stays: fewer can connect.
void RaiseDescriptorLimit();

}  // namespace dp
