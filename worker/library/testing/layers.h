#pragma once

#include <cstddef>
#include <vector>

#include "dp/ddp.h"
#include "worker/library/testing/listed_module.h"

namespace dp::library {

// Four layers, each with one weight of a cache line.
inline ListedModule Layers(int rank = 0) {
  const auto of = [&](float value) { return std::vector<float>(16, value); };
  return ListedModule({{"one", of(1.0f + float(rank))},
                       {"two", of(2.0f + float(rank))},
                       {"three", of(3.0f + float(rank))},
                       {"four", of(4.0f + float(rank))}});
}

inline constexpr double kOneLayer = 64.0 / (1 << 20);  // in MiB

// One backward, last layer first, in which each layer's gradient is `value` times its number.
inline void Step(distributed::DistributedDataParallel& ddp, ListedModule& module, float value,
                 std::vector<size_t> order = {3, 2, 1, 0}) {
  ddp.begin_forward();
  for (const size_t p : order) {
    module.Add(p, value * float(p + 1));
    ddp.gradient_ready(p);
  }
  ddp.finish_backward();
}

}  // namespace dp::library
