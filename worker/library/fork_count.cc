#include "worker/library/fork_count.h"

#include <pthread.h>

#include <atomic>

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

}  // namespace dp::library
