#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace dp::trainer {

// Tests only. Where the environment has TRAINER_STOPS_AT=RANK:PHASE:STEP, that rank of the job's
// first generation stops itself (SIGSTOP) when it first comes to that phase of that step or a later
// one, after a line "fault point PHASE STEP" on standard output: a test then does to it what it
// likes. Otherwise it costs a comparison. Phases: join, load, connect, resume, step, all-reduce,
// write (a checkpoint's files lie beside their place), register (they are in place, and the
// coordinator does not know), publish (the final weights lie beside their place, and the
// coordinator does not know), place (it knows, and they still lie there). Those that belong to no
// step have step 0. Any thread.
void ReachFaultPoint(absl::string_view phase, int64_t step = 0);

}  // namespace dp::trainer
