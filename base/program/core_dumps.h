#pragma once

namespace dp {

// From now on the kernel writes no core dump of this process, wherever core dumps go, and no other
// user's debugger may attach to it. For a process with secrets in its memory. Programs that it
// executes are not concerned. Idempotent; any thread.
void ForbidCoreDumps();

}  // namespace dp
