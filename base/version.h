#pragma once

#include <string>

namespace dp {

// The version of the project that this program was built from, as "0.1.0".
extern const char kVersion[];

// What --version prints: "dpctl 0.1.0".
std::string VersionLine(const std::string& program);

}  // namespace dp
