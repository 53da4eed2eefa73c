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

}  // namespace dp
