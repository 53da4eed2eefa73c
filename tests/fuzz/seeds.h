#pragma once

#include <string>
#include <vector>

namespace dp::fuzz {

// The requests of real clients: every verb of every dialect, from a connection's first byte on.
// Initial inputs for fuzzing.
std::vector<std::string> WireSeeds();

}  // namespace dp::fuzz
