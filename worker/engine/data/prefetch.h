#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/data/sampler.h"
#include "worker/engine/device/device.h"

namespace dp::engine {

// The steps of one epoch. While the caller computes a step, threads of this object read the next
// batches. Each thread fills one slot at a time, and there is one slot more than threads. The
// dataset and the sampler must outlive this and stay unchanged. Next is called from one thread.
class Prefetch {
 public:
  // Starts at `first_step`, with Batch::draw `first_draw`; both grow by one each step.
  Prefetch(const Dataset& dataset, const GlobalBatchSampler& sampler, int64_t first_step,
           uint64_t first_draw, int threads = 1);
  ~Prefetch();

  struct Step {
    Batch batch;
    int64_t global_count = 0;
  };
  // The next step, or null after the last one or at a sample that cannot be read (see status). Its
  // memory is valid until the next call.
  const Step* Next() DP_EXCLUDES(mu_);
  // Why Next ended early; otherwise OK. Read after Next has returned null.
  const absl::Status& status() const { return status_; }

 private:
  // Memory of one batch. A thread writes it while it is free; the caller reads it while it is
  // taken.
  struct Slot {
    std::vector<float> images;
    std::vector<int32_t> labels;
    std::vector<float> targets;
    std::vector<int64_t> samples;
    Step step;
    absl::Status status;
  };

  void Run() DP_EXCLUDES(mu_);
  void Fill(Slot& slot, int64_t step);
  Slot& SlotOf(int64_t step) { return slots_[static_cast<size_t>(step) % slots_.size()]; }

  const Dataset& dataset_;
  const GlobalBatchSampler& sampler_;
  const int64_t first_step_;
  const uint64_t first_draw_;
  std::vector<Slot> slots_;
  absl::Status status_;  // of the thread that calls Next

  Mutex mu_;
  CondVar changed_;
  int64_t claimed_ DP_GUARDED_BY(mu_);              // steps below this have a thread
  int64_t taken_ DP_GUARDED_BY(mu_);                // steps below this were given out by Next
  std::vector<int64_t> filled_ DP_GUARDED_BY(mu_);  // the step in each slot; -1 at first
  bool stopped_ DP_GUARDED_BY(mu_) = false;
  std::vector<std::jthread> threads_;
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
