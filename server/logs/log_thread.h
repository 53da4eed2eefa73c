#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bounded_queue.h"
#include "base/mutex.h"
#include "server/logs/log_chunk.h"
#include "server/logs/log_store.h"
#include "server/logs/recent_pages.h"

namespace dp::server {

// The one thread that touches log files, so that no disk holds up the driver. It drains a bounded
// queue, applies all appends, syncs once and acknowledges. Then it serves a share of the other
// calls, in order. Methods are thread-safe. Answers run on the thread itself, each exactly once,
// and must not block.
class LogThread {
 public:
  // Other calls that are served between two looks at the queue: an append waits for no more than
  // these. Reading a page takes about a millisecond, and readers that ask the same share one page.
  static constexpr size_t kReadsPerTurn = 256;

  struct Appended {
    std::vector<LogPosition> acknowledged;  // the end of each stream, durable
    uint64_t version = 0;                   // of the job's logs
  };
  using AppendAnswer = std::function<void(absl::StatusOr<Appended>)>;
  // Shared by readers that ask the same.
  using Page = std::shared_ptr<const LogPage>;
  using ReadAnswer = std::function<void(absl::StatusOr<Page>)>;

  // `on_failure` is called once, on the thread, when a sync has failed. It is then unknown what
  // reached the disk, and the process must not go on.
  LogThread(LogStore store, std::function<void(absl::Status)> on_failure);
  ~LogThread();

  // Errors, with `answer` never called: Unavailable the queue is full, or the thread has stopped.
  // `answer` gets the errors of LogStore.
  absl::Status Append(JobId job, LogBatch batch, AppendAnswer answer);
  absl::Status Read(JobId job, LogQuery query, ReadAnswer answer);
  // Removes what is stored of these jobs; logs what cannot be removed. Errors: as above.
  absl::Status Drop(std::vector<JobId> jobs);

  // OK, or why appends are rejected for lack of room, which is also logged.
  absl::Status room() const DP_EXCLUDES(mu_);
  // Whether appends have found no room since the last call, because of the limit or the disk. A
  // caller that gets true calls MakeRoom.
  bool TakeRoomRequest() { return room_wanted_.exchange(false); }
  // Removes what is stored of these terminal jobs, in this order, until there is room
  // (LogStore::MakeRoom); logs what was removed. Errors: as above.
  absl::Status MakeRoom(std::vector<JobId> ended);

  // Rejects further calls, and returns when the accepted ones are answered. Idempotent.
  void Stop();

 private:
  struct AppendCall {
    JobId job;
    LogBatch batch;
    AppendAnswer answer;
    size_t bytes = 0;  // of the batch
  };
  struct ReadCall {
    JobId job;
    LogQuery query;
    ReadAnswer answer;
  };
  struct DropCall {
    std::vector<JobId> jobs;
  };
  struct RoomCall {
    std::vector<JobId> ended;
  };
  // Calls that appends overtake.
  using Behind = std::variant<ReadCall, DropCall, RoomCall>;
  using Call = std::variant<AppendCall, Behind>;

  absl::Status Push(Call call);
  absl::Status PushBehind(Behind call);
  void Run();
  void Serve(std::vector<Call>& calls);
  void CarryOut(const ReadCall& call);
  void CarryOut(const DropCall& call);
  void CarryOut(const RoomCall& call);
  absl::StatusOr<Appended> Apply(const AppendCall& call);
  absl::StatusOr<Page> ReadPage(const ReadCall& call);
  absl::Status Note(JobId job, const LogBatch& batch);
  // Records whether the latest append, or news of ranks, found room.
  void NoteRoom(const absl::Status& room) DP_EXCLUDES(mu_);
  // Returns the previous value.
  absl::Status TakeRoom(const absl::Status& room) DP_EXCLUDES(mu_);

  mutable Mutex mu_;
  absl::Status room_ DP_GUARDED_BY(mu_);
  std::atomic<bool> room_wanted_ = false;

  LogStore store_;      // owned by thread_
  RecentPages recent_;  // owned by thread_
  const std::function<void(absl::Status)> on_failure_;
  absl::Status failure_;                  // owned by thread_
  std::deque<Behind> behind_;             // owned by thread_; taken from the queue
  std::atomic<size_t> behind_count_ = 0;  // of calls that are in behind_, or will be
  std::atomic<size_t> queued_bytes_ = 0;  // of the appends that are queued or being written
  BoundedQueue<Call> queue_;
  std::jthread thread_;
};

}  // namespace dp::server
