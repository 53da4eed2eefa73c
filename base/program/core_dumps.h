#pragma once

namespace dp {

// From now on the kernel writes no core dump of this process, wherever core dumps go. Other
// processes of its user can neither trace it nor read its memory, environment and descriptors. For
// a process with secrets in its memory. Programs that it executes are not concerned. Idempotent;
// any thread.
void ForbidCoreDumps();

}  // namespace dp
