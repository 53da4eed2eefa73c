#include "worker/engine/data/prefetch.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace dp::engine {

Prefetch::Prefetch(const Dataset& dataset, const GlobalBatchSampler& sampler, int64_t first_step,
                   uint64_t first_draw)
    : dataset_(dataset),
      sampler_(sampler),
      first_step_(first_step),
      first_draw_(first_draw),
      filled_(first_step),
      taken_(first_step) {
  const size_t capacity = sampler.capacity();
  for (Slot& slot : slots_) {
    slot.images.resize(capacity * model::ElementCount(dataset.sample_shape()));
    slot.labels.resize(capacity * dataset.labels_per_sample());
    slot.samples.resize(capacity);
  }
  thread_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "prefetch");
    Run();
  });
}

Prefetch::~Prefetch() {
  MutexLock lock(mu_);
  stopped_ = true;
  changed_.NotifyAll();
}

const Prefetch::Step* Prefetch::Next() {
  MutexLock lock(mu_);
  if (taken_ == sampler_.steps()) return nullptr;
  const int64_t step = taken_++;
  changed_.NotifyAll();
  while (filled_ <= step) changed_.Wait(mu_);
  return &slots_[step % 2].step;
}

void Prefetch::Run() {
  for (int64_t step = first_step_; step < sampler_.steps(); ++step) {
    {
      // The caller holds step taken_ - 1, so the slot of the step before that one is free.
      MutexLock lock(mu_);
      while (!stopped_ && step > taken_) changed_.Wait(mu_);
      if (stopped_) return;
    }
    Fill(slots_[step % 2], step);
    MutexLock lock(mu_);
    filled_ = step + 1;
    changed_.NotifyAll();
  }
}

void Prefetch::Fill(Slot& slot, int64_t step) {
  const Share share = sampler_.share(step);
  dataset_.Gather(share.samples, absl::MakeSpan(slot.images), absl::MakeSpan(slot.labels));
  std::copy(share.samples.begin(), share.samples.end(), slot.samples.begin());
  slot.step = {.batch = {.images = slot.images,
                         .labels = slot.labels,
                         .samples = slot.samples,
                         .count = static_cast<int>(share.samples.size()),
                         .draw = first_draw_ + static_cast<uint64_t>(step - first_step_)},
               .global_count = share.global_count};
}

}  // namespace dp::engine
