#pragma once

#include <cstdint>

#include "worker/engine/data/prefetch.h"
#include "worker/engine/data/sampler.h"

namespace dp::engine {

// The steps of one epoch as Prefetch gives them, without the contents of samples. For a device that
// holds the data set and needs only the samples' numbers. The sampler must outlive this and stay
// unchanged. Not thread-safe.
class NumberedSteps {
 public:
  NumberedSteps(const GlobalBatchSampler& sampler, int64_t first_step, uint64_t first_draw)
      : sampler_(sampler), next_(first_step), draw_(first_draw) {}

  // The next step, or null after the last one. Its memory is valid until the next call.
  const Prefetch::Step* Next() {
    if (next_ == sampler_.steps()) return nullptr;
    share_ = sampler_.share(next_++);
    step_ = {.batch = {.samples = share_.samples,
                       .count = static_cast<int>(share_.samples.size()),
                       .draw = draw_++},
             .global_count = share_.global_count};
    return &step_;
  }

 private:
  const GlobalBatchSampler& sampler_;
  int64_t next_;
  uint64_t draw_;
  Share share_;
  Prefetch::Step step_;
};

}  // namespace dp::engine
