#include "base/version.h"

namespace dp {

const char kVersion[] = DP_VERSION;  // from CMake

std::string VersionLine(const std::string& program) { return program + " " + kVersion; }

}  // namespace dp
