#pragma once

#include <cstdio>
#include <cstdlib>

// DP_CHECK states an invariant of ours: when it does not hold, the program is wrong and stops, in
// release builds too. What the outside world may get wrong is an absl::Status instead.

namespace dp::internal {

[[noreturn]] inline void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}

}  // namespace dp::internal

#define DP_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::dp::internal::CheckFailed(#condition, __FILE__, __LINE__))
