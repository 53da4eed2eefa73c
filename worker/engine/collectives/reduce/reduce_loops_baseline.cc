#include "worker/engine/collectives/reduce/reduce_loops_compiled.h"

namespace dp::engine {

extern const ReduceLoops kBaselineLoops;
const ReduceLoops kBaselineLoops = CompiledLoops("baseline");

}  // namespace dp::engine
