#pragma once

#include <string>
#include <vector>

namespace dp::fuzz {

// What real clients send: every verb of every dialect, from the first byte of a connection on.
// Inputs to begin from.
std::vector<std::string> WireSeeds();

}  // namespace dp::fuzz
