#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace dp::trainer {

// For tests only. TRAINER_STOPS_AT=RANK:PHASE:STEP in the environment makes that rank, in the job's
// first generation, stop itself (SIGSTOP). It stops once, when it first reaches the phase at that
// step or a later one. With ":always" at the end, it does so in every generation. Before that it
// prints "fault point PHASE STEP" to standard output. The test then kills or resumes it. Without
// the variable a call costs one comparison. Any thread.
//
// Phases: step, all-reduce, push, write, register; and with STEP 0: join, load, connect, resume,
// publish, place. At "push" the gradients of a step with strategy ps are complete. At "write" a
// checkpoint's partial directory is complete; at "register" the checkpoint is in its place, unknown
// to the coordinator. At "publish" the temporary file of the final weights is complete, unknown to
// the coordinator; at "place" the coordinator has registered it.
void ReachFaultPoint(absl::string_view phase, int64_t step = 0);

}  // namespace dp::trainer
