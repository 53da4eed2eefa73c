#include "worker/engine/data/prefetch.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace dp::engine {

Prefetch::Prefetch(const Dataset& dataset, const GlobalBatchSampler& sampler, int64_t first_step,
                   uint64_t first_draw, int threads)
    : dataset_(dataset),
      sampler_(sampler),
      first_step_(first_step),
      first_draw_(first_draw),
      slots_(static_cast<size_t>(threads) + 1),
      claimed_(first_step),
      taken_(first_step),
      filled_(slots_.size(), -1) {
  DP_CHECK(threads > 0);
  const size_t capacity = sampler.capacity();
  for (Slot& slot : slots_) {
    slot.images.resize(capacity * model::ElementCount(dataset.sample_shape()));
    slot.samples.resize(capacity);
    if (dataset.has_targets()) {
      slot.targets.resize(capacity * model::ElementCount(dataset.target_shape()));
    } else {
      slot.labels.resize(capacity * dataset.labels_per_sample());
    }
  }
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      pthread_setname_np(pthread_self(), "prefetch");
      Run();
    });
  }
}

Prefetch::~Prefetch() {
  MutexLock lock(mu_);
  stopped_ = true;
  changed_.NotifyAll();
}

const Prefetch::Step* Prefetch::Next() {
  if (!status_.ok()) return nullptr;
  MutexLock lock(mu_);
  if (taken_ == sampler_.steps()) return nullptr;
  const int64_t step = taken_++;
  changed_.NotifyAll();
  while (filled_[static_cast<size_t>(step) % slots_.size()] != step) changed_.Wait(mu_);
  status_ = SlotOf(step).status;
  return status_.ok() ? &SlotOf(step).step : nullptr;
}

void Prefetch::Run() {
  while (true) {
    int64_t step = 0;
    {
      // The caller holds step taken_ - 1. Slots of the steps before it are free.
      MutexLock lock(mu_);
      const auto slots = static_cast<int64_t>(slots_.size());
      while (!stopped_ && claimed_ < sampler_.steps() && claimed_ >= taken_ + slots - 1) {
        changed_.Wait(mu_);
      }
      if (stopped_ || claimed_ >= sampler_.steps()) return;
      step = claimed_++;
    }
    Fill(SlotOf(step), step);
    MutexLock lock(mu_);
    filled_[static_cast<size_t>(step) % slots_.size()] = step;
    changed_.NotifyAll();
  }
}

void Prefetch::Fill(Slot& slot, int64_t step) {
  const Share share = sampler_.share(step);
  slot.status = dataset_.Read({.samples = share.samples,
                               .epoch = sampler_.epoch(),
                               .inputs = absl::MakeSpan(slot.images),
                               .labels = absl::MakeSpan(slot.labels),
                               .targets = absl::MakeSpan(slot.targets)});
  std::copy(share.samples.begin(), share.samples.end(), slot.samples.begin());
  slot.step = {.batch = {.images = slot.images,
                         .labels = slot.labels,
                         .samples = slot.samples,
                         .count = static_cast<int>(share.samples.size()),
                         .draw = first_draw_ + static_cast<uint64_t>(step - first_step_),
                         .targets = slot.targets},
               .global_count = share.global_count};
}

}  // namespace dp::engine
