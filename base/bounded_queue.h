#pragma once

#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace dp {

// Hands items from many threads to one, in order. A full or closed queue rejects items instead of
// blocking. Thread-safe.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Returns false and leaves `item` unchanged when the queue is full or closed.
  bool TryPush(T& item) DP_EXCLUDES(mu_) {
    if (!TryPushQuietly(item)) return false;
    Wake();
    return true;
  }
  // As TryPush, but does not wake the waiting thread: for several items before one Wake.
  bool TryPushQuietly(T& item) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    return true;
  }
  void Wake() { changed_.NotifyOne(); }

  // Waits until there are items, the queue is closed, or `timeout` has passed. Then takes all
  // items, or the first `max`. An empty result means closed or timed out.
  std::vector<T> DrainFor(absl::Duration timeout, size_t max = std::numeric_limits<size_t>::max())
      DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    changed_.WaitFor(mu_, timeout, [&]() DP_REQUIRES(mu_) { return closed_ || !items_.empty(); });
    if (items_.size() <= max) return std::exchange(items_, {});
    const auto end = items_.begin() + static_cast<std::ptrdiff_t>(max);
    std::vector<T> taken(std::make_move_iterator(items_.begin()), std::make_move_iterator(end));
    items_.erase(items_.begin(), end);
    return taken;
  }

  // Rejects further items and wakes the waiting thread. Queued items can still be drained.
  void Close() DP_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      closed_ = true;
    }
    changed_.NotifyAll();
  }

  bool closed() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return closed_;
  }

 private:
  const size_t capacity_;
  mutable Mutex mu_;
  CondVar changed_;
  std::vector<T> items_ DP_GUARDED_BY(mu_);
  bool closed_ DP_GUARDED_BY(mu_) = false;
};

}  // namespace dp
