#include "worker/engine/collectives/reduce/reduce_loops_compiled.h"

namespace dp::engine {

extern const ReduceLoops kAvx512Loops;
const ReduceLoops kAvx512Loops = CompiledLoops("avx512");

}  // namespace dp::engine
