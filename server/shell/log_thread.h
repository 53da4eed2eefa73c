#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bounded_queue.h"
#include "server/shell/log_chunk.h"
#include "server/shell/log_store.h"

namespace dp::server {

// The one thread that touches log files, so that no disk holds up the driver: drains a bounded
// queue, appends all, syncs once, acknowledges; then serves the reads. Methods are thread-safe;
// answers are given on the thread itself, each exactly once, and must not block.
class LogThread {
 public:
  struct Appended {
    std::vector<LogPosition> acknowledged;  // the end of each stream, durable
    uint64_t version = 0;                   // of the job's logs
  };
  using AppendAnswer = std::function<void(absl::StatusOr<Appended>)>;
  using ReadAnswer = std::function<void(absl::StatusOr<LogPage>)>;

  // `on_failure` is called once, on the thread, when a sync failed: what reached the disk is not
  // known then, and the process must not go on.
  LogThread(LogStore store, std::function<void(absl::Status)> on_failure);
  ~LogThread();

  // Errors, with `answer` never called: ResourceExhausted the queue is full; Unavailable stopped.
  // An answer holds the errors of LogStore.
  absl::Status Append(JobId job, std::vector<LogChunk> chunks, AppendAnswer answer);
  absl::Status Read(JobId job, LogQuery query, ReadAnswer answer);
  // Removes what is stored of these jobs; what cannot be removed is logged. Errors: as above.
  absl::Status Drop(std::vector<JobId> jobs);

  // Refuses further calls and returns when those accepted are answered. Idempotent.
  void Stop();

 private:
  struct AppendCall {
    JobId job;
    std::vector<LogChunk> chunks;
    AppendAnswer answer;
  };
  struct ReadCall {
    JobId job;
    LogQuery query;
    ReadAnswer answer;
  };
  struct DropCall {
    std::vector<JobId> jobs;
  };
  using Call = std::variant<AppendCall, ReadCall, DropCall>;

  absl::Status Push(Call call);
  void Run();
  void Serve(std::vector<Call>& calls);
  void CarryOut(const DropCall& call);
  absl::StatusOr<Appended> Apply(const AppendCall& call);

  LogStore store_;  // owned by thread_
  const std::function<void(absl::Status)> on_failure_;
  absl::Status failure_;  // owned by thread_
  BoundedQueue<Call> queue_;
  std::jthread thread_;
};

}  // namespace dp::server
