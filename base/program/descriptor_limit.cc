#include "base/program/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace dp {

size_t DescriptorLimitFor(size_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return std::max<size_t>(limit.rlim_cur, std::min<size_t>(wanted, limit.rlim_max));
}

size_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

bool IsReservedDescriptor(int descriptor) {
  constexpr size_t kReservedMin = 64, kReservedMax = 1'024;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const size_t all = limit.rlim_cur;
  return static_cast<size_t>(descriptor) + std::clamp(all / 16, kReservedMin, kReservedMax) >= all;
}

}  // namespace dp
