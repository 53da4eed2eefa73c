#include "worker/engine/collectives/reduce/reduce_loops_compiled.h"

namespace dp::engine {

extern const ReduceLoops kAvx2Loops;
const ReduceLoops kAvx2Loops = CompiledLoops("avx2");

}  // namespace dp::engine
