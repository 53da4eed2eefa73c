#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/bounded_queue.h"

namespace dp::server {

// A few threads that carry out tasks which take long or wait for the disk, so that neither gRPC's
// threads nor the driver's do. Tasks of different calls run side by side; a call that needs an
// order submits one task at a time. Thread-safe.
class TaskThreads {
 public:
  // `name` of the threads, at most 15 bytes.
  TaskThreads(std::string name, int threads);
  ~TaskThreads();

  // Errors, and the task never runs: Unavailable the queue is full, or the threads have stopped.
  absl::Status Submit(std::function<void()> task);
  // Rejects further tasks, and returns when the accepted ones are done. Idempotent.
  void Stop();

 private:
  void Run();

  const std::string name_;
  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::jthread> threads_;
};

}  // namespace dp::server
