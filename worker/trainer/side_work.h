#pragma once

#include <pthread.h>

#include <functional>
#include <future>
#include <thread>
#include <utility>

#include "absl/time/time.h"

namespace dp::trainer {

// Runs one function on a thread of its own. The destructor waits for the function to return. Not
// thread-safe.
template <typename T>
class SideWork {
 public:
  // `name` is the thread's name, at most 15 characters.
  SideWork(const char* name, std::function<T()> work) {
    std::packaged_task<T()> task(std::move(work));
    outcome_ = task.get_future();
    thread_ = std::jthread(std::move(task));
    pthread_setname_np(thread_.native_handle(), name);
  }

  bool DoneWithin(absl::Duration time) const {
    return outcome_.wait_for(absl::ToChronoNanoseconds(time)) == std::future_status::ready;
  }
  // Waits for the result. Call at most once.
  T Take() { return outcome_.get(); }

 private:
  std::future<T> outcome_;
  std::jthread thread_;
};

}  // namespace dp::trainer
