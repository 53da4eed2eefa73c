#pragma once

#include <cstdio>
#include <cstdlib>

// DP_CHECK states an invariant of our own code: if it does not hold, the program is wrong and
// aborts, in release builds too. Mistakes of the outside world are an absl::Status instead.

namespace dp::internal {

[[noreturn]] inline void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}

}  // namespace dp::internal

#define DP_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::dp::internal::CheckFailed(#condition, __FILE__, __LINE__))
