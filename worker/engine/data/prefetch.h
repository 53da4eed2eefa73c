#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/data/sampler.h"
#include "worker/engine/device/device.h"

namespace dp::engine {

// The steps of one epoch, each prepared while the one before is computed: a thread of its own
// gathers the next batch into the second of two slots. The dataset and the sampler must outlive it
// and stay as they are. Next is called from one thread.
class Prefetch {
 public:
  // Starts at `first_step`, with Batch::draw `first_draw`, both growing by one.
  Prefetch(const Dataset& dataset, const GlobalBatchSampler& sampler, int64_t first_step,
           uint64_t first_draw);
  ~Prefetch();

  struct Step {
    Batch batch;
    int64_t global_count = 0;
  };
  // The next step, or null after the last one. Its memory is good until the next call.
  const Step* Next() DP_EXCLUDES(mu_);

 private:
  // Memory of one batch; written by the thread while free, read by the caller while taken.
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

}  // namespace dp::engine
