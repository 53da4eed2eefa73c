#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/data/sampler.h"
#include "worker/engine/device/device.h"

namespace dp::engine {

// The steps of one epoch. While the caller computes a step, a thread of this object gathers the
// next batch into the other of two slots. The dataset and the sampler must outlive this and stay
// unchanged. Next is called from one thread.
class Prefetch {
 public:
  // Starts at `first_step`, with Batch::draw `first_draw`; both grow by one each step.
  Prefetch(const Dataset& dataset, const GlobalBatchSampler& sampler, int64_t first_step,
           uint64_t first_draw);
  ~Prefetch();

  struct Step {
    Batch batch;
    int64_t global_count = 0;
  };
  // The next step, or null after the last one. Its memory is valid until the next call.
  const Step* Next() DP_EXCLUDES(mu_);

 private:
  // Memory of one batch. The thread writes it while it is free; the caller reads it while it is
  // taken.
  struct Slot {
    std::vector<float> images;
    std::vector<int32_t> labels;
    std::vector<int64_t> samples;
    Step step;
  };

  void Run() DP_EXCLUDES(mu_);
  void Fill(Slot& slot, int64_t step);

  const Dataset& dataset_;
  const GlobalBatchSampler& sampler_;
  const int64_t first_step_;
  const uint64_t first_draw_;
  Slot slots_[2];

  Mutex mu_;
  CondVar changed_;
  int64_t filled_ DP_GUARDED_BY(mu_);  // steps below this are in their slots
  int64_t taken_ DP_GUARDED_BY(mu_);   // steps below this were given out by Next
  bool stopped_ DP_GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

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
