#include "worker/engine/collectives/reduce/reduce_loops.h"

#include <vector>

namespace dp::engine {

extern const ReduceLoops kBaselineLoops;
extern const ReduceLoops kAvx2Loops;
extern const ReduceLoops kAvx512Loops;

absl::Span<const ReduceLoops* const> LoopsOfThisProcessor() {
  static const std::vector<const ReduceLoops*>* const loops = [] {
    auto* const found = new std::vector<const ReduceLoops*>;
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
      found->push_back(&kAvx512Loops);
    if (__builtin_cpu_supports("avx2")) found->push_back(&kAvx2Loops);
#endif
    found->push_back(&kBaselineLoops);
    return found;
  }();
  return *loops;
}

}  // namespace dp::engine
