#pragma once

#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>

// How the programs of the library's checks report, for tests/gpu/library_checks.py.

namespace dp::gpu_tests {

// Exit codes of a program.
inline constexpr int kWrong = 1;       // a property does not hold
inline constexpr int kCannotRun = 77;  // built without what it checks

// Runs `body`, which throws a std::exception unless the property holds. Then prints a line for the
// property. The error of one that does not hold names it.
inline void Property(const char* what, const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string(what) + ": " + error.what());
  }
  std::printf("ok: %s\n", what);
  std::fflush(stdout);
}

}  // namespace dp::gpu_tests
