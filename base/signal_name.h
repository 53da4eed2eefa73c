#pragma once

#include <string>

namespace dp {

// "signal 9 (SIGKILL)", as every part says it; the number alone where the name is not well known.
std::string SignalText(int signal);

}  // namespace dp
