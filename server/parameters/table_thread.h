#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mutex.h"
#include "dp/v1/parameters.pb.h"
#include "server/parameters/core/gradient_table.h"
#include "server/parameters/parameter_memory.h"
#include "server/parameters/parameter_store.h"
#include "server/parameters/table_version.h"
#include "server/parameters/task_threads.h"

namespace dp::server {

// The table of one job, and the one thread that touches it: it takes gradients, runs the optimizer,
// and answers who waits. A bounded queue feeds it. Files of published states are written by the
// tasks' threads meanwhile. Methods are thread-safe and never block; answers run on the table's
// thread, exactly once each, and must not block. Store, memory and tasks outlive it.
//
// A state that ranks of a new generation go on from is durable before they hear of it. They do not
// have the gradients before it, so nobody could push these again.
class TableThread {
 public:
  using Values = std::shared_ptr<const std::vector<float>>;

  // The caller of a method: one rank of one generation.
  struct From {
    Generation generation;
    int rank = 0;
  };
  struct Opened {
    bool initial = false;
    uint64_t next = 1;
    v1::TableState state;
  };
  // The place of a gradient that is on its way. The rank gets no other while this exists.
  struct Place {
    uint64_t next = 0;  // of the reply, if the gradient has no effect
    bool take = false;  // whether its data are wanted
    size_t floats = 0;  // that must come
    std::shared_ptr<void> held = {};
  };
  struct Pulled {
    v1::TableState state;
    Values values;             // null: not wanted
    std::vector<int> missing;  // not empty: the time is over, and these ranks are waited for
    std::vector<uint64_t> missing_at = {};  // in the same order: the number of each in the state
  };
  template <typename Answer>
  using Done = std::function<void(absl::StatusOr<Answer>)>;

  TableThread(JobId job, ParameterStore& store, ParameterMemory& memory, TaskThreads& tasks,
              const Clock& clock = Clock::Steady());
  ~TableThread();

  // As the RPCs of proto/dp/v1/parameters.proto. Errors, and `done` is never called: Unavailable
  // the queue is full, or the thread has stopped.
  absl::Status Open(From from, v1::TableSettings settings, Done<Opened> done);
  // Whether the gradient counts, before its data come. Number 0: the values of a new table.
  absl::Status Begin(From from, uint64_t number, Done<Place> done);
  // The number of the rank's next gradient, once the data have come.
  absl::Status Push(From from, uint64_t number, std::vector<float> data, const GradientNote& note,
                    Done<uint64_t> done);
  absl::Status Pull(From from, uint64_t number, absl::Duration timeout, bool without_values,
                    Done<Pulled> done);
  absl::Status Publish(From from, uint64_t number, bool close, Done<v1::ParameterVersion> done);

  // Answers what is queued, and frees the table. `publish`: writes a state that is not durable yet
  // first. Returns when the thread has ended. Idempotent; not from the thread itself.
  void Stop(bool publish);

 private:
  struct OpenItem {
    From from;
    v1::TableSettings settings;
    Done<Opened> done;
    uint64_t attempts = 0;  // as in PublishItem
  };
  struct BeginItem {
    From from;
    uint64_t number = 0;
    Done<Place> done;
  };
  struct PushItem {
    From from;
    uint64_t number = 0;
    std::vector<float> data;
    GradientNote note;
    Done<uint64_t> done;
  };
  struct PullItem {
    From from;
    uint64_t number = 0;
    absl::Time deadline;
    bool without_values = false;
    Done<Pulled> done;
  };
  struct PublishItem {
    From from;
    uint64_t number = 0;
    bool close = false;
    Done<v1::ParameterVersion> done;
    int64_t steps = 0;      // that must be durable
    uint64_t attempts = 0;  // to write that had begun before; only a later one fails this
  };
  struct WrittenItem {};  // written_ has an outcome
  using Item = std::variant<OpenItem, BeginItem, PushItem, PullItem, PublishItem, WrittenItem>;
  // The outcome of a write.
  struct Written {
    TableProgress progress;
    absl::StatusOr<v1::ParameterVersion> version;
  };
  // Brings the outcome to the thread. It always has room for the one write that is on its way.
  class WrittenSlot {
   public:
    // False: nobody wants the write any more.
    bool Begin() DP_EXCLUDES(mu_);
    void Put(Written written) DP_EXCLUDES(mu_);
    std::optional<Written> Take() DP_EXCLUDES(mu_);
    // Waits for a write that has begun. Drops one that has not, which may wait for this very thread
    // to end.
    std::optional<Written> AwaitOrDrop() DP_EXCLUDES(mu_);

   private:
    Mutex mu_;
    CondVar there_;
    bool begun_ DP_GUARDED_BY(mu_) = false;
    bool dropped_ DP_GUARDED_BY(mu_) = false;
    std::optional<Written> written_ DP_GUARDED_BY(mu_);
  };

  absl::Status Submit(Item item);
  void Run();
  void Take(OpenItem& item);
  void Take(BeginItem& item);
  void Take(PushItem& item);
  void Take(PullItem& item) { pulls_.push_back(std::move(item)); }
  void Take(PublishItem& item);
  void Take(WrittenItem&) {}  // wakes the thread

  absl::Status CheckOpening(const OpenItem& item);
  // Frees the former generation's part, and goes on from memory or from the disk. Errors: the
  // former generation's part is as it was, unless the disk has failed.
  absl::Status BeginGeneration(const OpenItem& item);
  absl::Status Load();
  void Make(GradientTable::State state);
  absl::StatusOr<Place> PlaceFor(const BeginItem& item);
  absl::StatusOr<uint64_t> Accept(PushItem& item);
  // Errors: FailedPrecondition the caller's generation is stale, or the table is not open.
  absl::Status CheckOpen(const From& from) const;
  // Errors: FailedPrecondition the table is open, and lacks this gradient: the coordinator has
  // restarted, and another rank has opened the table.
  absl::Status CheckPushed(const From& from, uint64_t number) const;
  void AnswerOpens();
  // nullopt: it goes on waiting.
  std::optional<absl::StatusOr<Opened>> AnswerTo(const OpenItem& open);
  void AnswerPulls(absl::Time now);
  // nullopt: it goes on waiting.
  std::optional<absl::StatusOr<Pulled>> AnswerTo(const PullItem& pull, absl::Time now);
  void AnswerPublishes();
  void PublishIfDue(absl::Time now);
  void BeginPublish();
  void EndPublish(Written written);
  // Writes what is not durable yet, behind a write that is on its way.
  void PublishLast();
  TableVersion Version();
  // Whether an attempt to write that began after these has failed.
  bool FailedSince(uint64_t attempts) const { return failed_attempt_ > attempts; }
  Values Snapshot();
  // The values, for the one stream that the rank may have.
  Values Lend(int rank);
  void Free();
  void AnswerAllEnded();
  absl::Time NextAt() const;
  bool wants_publish() const;

  const JobId job_;
  ParameterStore& store_;
  ParameterMemory& memory_;
  TaskThreads& tasks_;
  const Clock& clock_;
  // Both are shared with a state on its way to the disk.
  const std::shared_ptr<BoundedQueue<Item>> queue_;
  const std::shared_ptr<WrittenSlot> written_ = std::make_shared<WrittenSlot>();
  std::atomic<bool> publish_at_end_ = false;

  // Used by the thread alone.
  Generation generation_;  // not valid: none has opened the table
  v1::TableSettings settings_;
  std::optional<TableOptions> options_;
  ParameterMemory::Share share_;
  std::unique_ptr<GradientTable> table_;
  std::vector<std::weak_ptr<void>> places_;      // by rank: the gradient that is on its way
  std::vector<std::weak_ptr<const void>> lent_;  // by rank: the values that are on their way to it
  Values snapshot_;                              // of the values; null: they have changed since
  std::vector<OpenItem> opens_;
  std::vector<PullItem> pulls_;
  std::vector<PublishItem> publishes_;
  bool writing_ = false;
  uint64_t attempts_ = 0;        // to write; the latest is on its way if writing_
  uint64_t failed_attempt_ = 0;  // the latest that has failed
  absl::Status write_failed_;    // the latest write
  absl::Time write_again_at_ = absl::InfinitePast();
  std::optional<v1::ParameterVersion> published_;
  std::optional<TableProgress> on_disk_;  // of published_, as it was written

  std::jthread thread_;  // last: it uses the others
};

}  // namespace dp::server
