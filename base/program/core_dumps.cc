#include "base/program/core_dumps.h"

#include <sys/prctl.h>

#include "base/check.h"

namespace dp {

// Not by RLIMIT_CORE: the kernel ignores a limit of 0 where dumps go to a program, as to
// systemd-coredump, and children would inherit it.
void ForbidCoreDumps() { DP_CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0); }

}  // namespace dp
