#pragma once

#include <cstddef>

namespace dp {

// How many descriptors this process may have open, its soft limit. Programs that it starts inherit
// that, and those that use select() need it low: a server that raises its own gives them the one
// before.
size_t DescriptorLimit();

// Raises it as far as the administrator allows. Where that fails it stays: fewer can connect.
void RaiseDescriptorLimit();

}  // namespace dp
