#include "worker/library/spawn/fork_count.h"

#include <pthread.h>

#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "worker/library/dist_error.h"

namespace dp::library {
namespace {

std::atomic<uint64_t> fork_count = 0;

bool Count() {
  return pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1); }) == 0;
}

}  // namespace

uint64_t ForkCount() {
  static const bool counts = Count();
  (void)counts;
  return fork_count.load(std::memory_order_relaxed);
}

void LeaveToParent(std::shared_ptr<void> held) {
  struct Kept {
    Mutex mu;
    std::vector<std::shared_ptr<void>> all DP_GUARDED_BY(mu);
  };
  static auto* const kept = new Kept;  // without an end
  MutexLock lock(kept->mu);
  kept->all.push_back(std::move(held));
}

void ThrowInFork(const std::string& context) {
  throw distributed::DistError(
      distributed::ErrorKind::kWrongState,
      absl::StrCat(context, " was joined by a process of which this one is a fork; ",
                   "join in the process that calls, with dp::spawn in the function ",
                   "of the ranks"));
}

}  // namespace dp::library
