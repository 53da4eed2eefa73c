#pragma once

#include <cstddef>

namespace dp {

// The soft limit for a program that this process starts: `wanted`, at most the hard limit, and
// never below the soft limit of this process.
size_t DescriptorLimitFor(size_t wanted);

// Raises the soft limit of this process as far as the administrator allows, and returns it. Where
// that fails the limit stays: fewer can connect. Programs that the process starts inherit it.
size_t RaiseDescriptorLimit();

}  // namespace dp
