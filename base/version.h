#pragma once

#include <string>

namespace dp {

// The project's version that this program was built from, such as "0.1.0".
extern const char kVersion[];

// The output of --version: "dpctl 0.1.0".
std::string VersionLine(const std::string& program);

}  // namespace dp
