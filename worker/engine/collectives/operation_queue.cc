#include "worker/engine/collectives/operation_queue.h"

#include <pthread.h>

#include <algorithm>
#include <deque>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "worker/engine/collectives/failure.h"

namespace dp::engine {
namespace {

// Far above the buckets of any model. A caller that never waits meets this limit instead of using
// up memory.
constexpr size_t kPendingMax = 4096;
// An operation that was stopped gets so many turns to leave a foreign call. They are counted, not
// timed: threads that could not run, as in a process that was stopped, have not hung.
constexpr int kTurnsInOneCall = 20;

absl::Status ErrorOf(const StopReason& stop, const std::string& name,
                     const std::vector<int>& missing) {
  if (stop.kind == StopReason::Kind::kAbort) return AbortedBecause(name, stop.why);
  return DidNotArrive(name, missing, stop.timeout);
}

struct Operation {
  std::string name;
  OperationQueue::Run run;
  absl::Duration timeout;
  absl::Time deadline;
  bool done = false;
  absl::Status status;
  WorkTimes times;
};

}  // namespace

class OperationQueue::State : public std::enable_shared_from_this<State> {
 public:
  State(const GroupOptions& options, std::function<void()> wake, const Clock& clock,
        absl::Duration interval, RunBy run_by, ForeignCalls foreign_calls)
      : timeout_(options.timeout),
        wake_(std::move(wake)),
        clock_(clock),
        interval_(interval),
        run_by_(run_by),
        foreign_calls_(std::move(foreign_calls)) {}

  std::shared_ptr<Operation> Push(std::string name, Run run, std::optional<absl::Duration> timeout)
      DP_EXCLUDES(mu_) {
    auto operation = std::make_shared<Operation>();
    operation->name = std::move(name);
    operation->run = std::move(run);
    operation->timeout = timeout.value_or(timeout_);
    operation->deadline = clock_.Now() + operation->timeout;
    MutexLock lock(mu_);
    if (pending_.size() >= kPendingMax) {
      // The other ranks may run it, so this group is out of step from here on.
      Fail(absl::ResourceExhaustedError(
          absl::StrCat(operation->name, ": ", kPendingMax,
                       " operations are already waiting; wait for some of them first")));
      End(*operation, failure_);
      return operation;
    }
    if (abandoned_) {
      End(*operation, failure_);
      return operation;
    }
    pending_.push_back(operation);
    work_.NotifyAll();
    return operation;
  }

  // The thread's body: runs one operation after another until closed.
  void RunAll() DP_EXCLUDES(mu_) {
    while (const std::shared_ptr<Operation> operation = Next()) {
      MutexLock lock(mu_);
      Perform(*operation);
    }
    if (auto last = TakeLast()) last();
  }

  absl::Status Wait(Operation& operation) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    Stay stay;
    while (!operation.done) {
      if (run_by_ == RunBy::kWaiter && running_ == nullptr && !pending_.empty() &&
          pending_.front().get() == &operation) {
        RunHere();
        continue;
      }
      if (foreign_calls_.current != nullptr && stop_.kind != StopReason::Kind::kNone) {
        AwaitReturn(&stay);
        continue;
      }
      const absl::Duration left = operation.deadline - clock_.Now();
      if (left > absl::ZeroDuration()) {
        const bool looks = interval_ < left;
        if (!changed_.WaitFor(mu_, looks ? interval_ : left) && looks && !operation.done) Wake();
      } else if (stop_.kind == StopReason::Kind::kNone) {
        Stop({.kind = StopReason::Kind::kDeadline, .timeout = operation.timeout});
      } else {
        changed_.Wait(mu_);
      }
    }
    return operation.status;
  }

  bool done(const Operation& operation) const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return operation.done;
  }

  WorkTimes times(const Operation& operation) const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return operation.times;
  }

  void Abort(const absl::Status& why) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    Stop({.kind = StopReason::Kind::kAbort, .why = why});
  }

  // Returns when no thread calls `wake` any more; the backend may then be destroyed.
  void Close(std::function<void()> last) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    last_ = std::move(last);
    Stop({.kind = StopReason::Kind::kAbort, .why = absl::AbortedError("its group was closed")});
    closed_ = true;
    work_.NotifyAll();
    while (wakers_ > 0 || watched_ != nullptr) changed_.Wait(mu_);
  }

  void Break(const absl::Status& why) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    Fail(why);
  }

  absl::Status failure() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return failure_;
  }

  StopReason stop_reason() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return stop_;
  }

 private:
  // For how many turns the running operation has been in one foreign call.
  struct Stay {
    uint64_t call = 0;
    int turns = 0;
  };

  // Waits a turn for the operation that was stopped, and abandons it after too many.
  void AwaitReturn(Stay* stay) DP_REQUIRES(mu_) {
    const uint64_t call = running_ != nullptr ? foreign_calls_.current() : 0;
    if (call == 0 || call != stay->call) *stay = {.call = call};
    if (stay->turns >= kTurnsInOneCall) return Abandon();
    if (!changed_.WaitFor(mu_, foreign_calls_.turn)) ++stay->turns;
  }

  // Nothing more can run: the thread does not come back.
  void Abandon() DP_REQUIRES(mu_) {
    abandoned_ = true;
    Fail(WithMore(ErrorOf(stop_, running_->name, {}),
                  "; a call of this rank's transport does not return and may still use the "
                  "operation's memory; end the process"));
    End(*running_, failure_);
    for (const auto& operation : pending_) End(*operation, failure_);
    pending_.clear();
  }

  // The operation that the queue's thread runs next. Null when closed and empty.
  std::shared_ptr<Operation> Next() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    for (;;) {
      while (running_ != nullptr || (pending_.empty() && !closed_)) AwaitWork();
      if (pending_.empty()) return nullptr;
      if (std::shared_ptr<Operation> operation = Begin()) return operation;
    }
  }

  // Takes the first operation. One behind a failed or stopped one ends here, without running.
  std::shared_ptr<Operation> Begin() DP_REQUIRES(mu_) {
    std::shared_ptr<Operation> operation = std::move(pending_.front());
    pending_.pop_front();
    operation->times.begun = clock_.Now();
    if (failure_.ok() && stop_.kind == StopReason::Kind::kNone) return running_ = operation;
    End(*operation, Refusal(operation->name));
    operation->run = nullptr;
    return nullptr;
  }

  // Runs what has begun; releases mu_ meanwhile.
  void Perform(Operation& operation) DP_REQUIRES(mu_) {
    mu_.Unlock();
    absl::Status status = operation.run();
    operation.run = nullptr;
    mu_.Lock();
    if (!status.ok()) Fail(status);
    running_ = nullptr;
    if (!operation.done) End(operation, std::move(status));
  }

  // Runs the first operation on the thread that waits for it. The queue's thread watches its
  // deadline, which mostly comes after the time at which that thread looks anyway.
  void RunHere() DP_REQUIRES(mu_) {
    const std::shared_ptr<Operation> operation = Begin();
    if (operation == nullptr) return;
    watched_ = operation;
    if (operation->deadline < looks_at_) work_.NotifyAll();
    Perform(*operation);
    watched_ = nullptr;
    if (!pending_.empty() || closed_) work_.NotifyAll();
    if (closed_) changed_.NotifyAll();
  }

  // The queue's thread, while it has nothing to run.
  void AwaitWork() DP_REQUIRES(mu_) {
    const absl::Time now = clock_.Now();
    if (watched_ != nullptr && watched_->deadline <= now && stop_.kind == StopReason::Kind::kNone)
      return Stop({.kind = StopReason::Kind::kDeadline, .timeout = watched_->timeout});
    if (looks_at_ <= now) looks_at_ = absl::InfiniteFuture();
    if (watched_ != nullptr && watched_->deadline > now)
      looks_at_ = std::min(looks_at_, watched_->deadline);
    if (looks_at_ == absl::InfiniteFuture()) return work_.Wait(mu_);
    (void)work_.WaitFor(mu_, looks_at_ - now);
  }

  std::function<void()> TakeLast() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return std::move(last_);
  }

  absl::Status Refusal(const std::string& name) const DP_REQUIRES(mu_) {
    return failure_.ok() ? ErrorOf(stop_, name, {}) : failure_;
  }

  // The first failure stays.
  void Fail(const absl::Status& why) DP_REQUIRES(mu_) {
    if (failure_.ok()) failure_ = why;
  }

  void End(Operation& operation, absl::Status status) DP_REQUIRES(mu_) {
    operation.status = std::move(status);
    operation.times.ended = clock_.Now();
    operation.done = true;
    changed_.NotifyAll();
  }

  // Releases mu_ while it calls out. The first reason stays.
  void Stop(StopReason reason) DP_REQUIRES(mu_) {
    if (stop_.kind == StopReason::Kind::kNone) stop_ = std::move(reason);
    if (foreign_calls_.current == nullptr) return Wake();
    // Apart, because it may hang as the operation does. The thread is not joined: Close waits until
    // it has called.
    ++wakers_;
    try {
      std::thread([state = shared_from_this()] { state->WakeApart(); }).detach();
      changed_.NotifyAll();
    } catch (const std::system_error&) {  // the process may have no further thread
      --wakers_;
      Wake();
    }
  }

  void WakeApart() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    --wakers_;
    Wake();
  }

  void Wake() DP_REQUIRES(mu_) {
    ++wakers_;
    mu_.Unlock();
    wake_();
    mu_.Lock();
    --wakers_;
    changed_.NotifyAll();
  }

  const absl::Duration timeout_;
  const std::function<void()> wake_;
  const Clock& clock_;
  const absl::Duration interval_;
  const RunBy run_by_;
  const ForeignCalls foreign_calls_;
  mutable Mutex mu_;
  CondVar changed_;  // an operation has ended; for callers
  CondVar work_;     // for the queue's thread
  std::shared_ptr<Operation> running_ DP_GUARDED_BY(mu_);
  std::shared_ptr<Operation> watched_ DP_GUARDED_BY(mu_);  // run by a thread that waits for it
  // When the queue's thread wakes by itself.
  absl::Time looks_at_ DP_GUARDED_BY(mu_) = absl::InfiniteFuture();
  std::deque<std::shared_ptr<Operation>> pending_ DP_GUARDED_BY(mu_);
  absl::Status failure_ DP_GUARDED_BY(mu_);  // of the first operation that failed
  StopReason stop_ DP_GUARDED_BY(mu_);
  std::function<void()> last_ DP_GUARDED_BY(mu_);
  int wakers_ DP_GUARDED_BY(mu_) = 0;
  bool abandoned_ DP_GUARDED_BY(mu_) = false;
  bool closed_ DP_GUARDED_BY(mu_) = false;
};

class OperationQueue::QueuedWork : public Work {
 public:
  QueuedWork(std::shared_ptr<State> state, std::shared_ptr<Operation> operation)
      : state_(std::move(state)), operation_(std::move(operation)) {}

  absl::Status Wait() override { return state_->Wait(*operation_); }
  bool done() const override { return state_->done(*operation_); }
  WorkTimes times() const override { return state_->times(*operation_); }

 private:
  const std::shared_ptr<State> state_;
  const std::shared_ptr<Operation> operation_;
};

OperationQueue::OperationQueue(const GroupOptions& options, std::function<void()> wake,
                               const Clock& clock, absl::Duration interval, RunBy run_by,
                               ForeignCalls foreign_calls)
    : state_(std::make_shared<State>(options, std::move(wake), clock, interval, run_by,
                                     std::move(foreign_calls))),
      thread_([state = state_] {
        pthread_setname_np(pthread_self(), "collectives");
        state->RunAll();
      }) {}

OperationQueue::~OperationQueue() { Close(); }

void OperationQueue::Close(std::function<void()> last) {
  if (!thread_.joinable()) return;
  state_->Close(std::move(last));
  thread_.join();
}

std::unique_ptr<Work> OperationQueue::Push(std::string name, Run run,
                                           std::optional<absl::Duration> timeout) {
  return std::make_unique<QueuedWork>(state_,
                                      state_->Push(std::move(name), std::move(run), timeout));
}

void OperationQueue::Abort(const absl::Status& why) { state_->Abort(why); }

void OperationQueue::Break(const absl::Status& why) { state_->Break(why); }

absl::Status OperationQueue::failure() const { return state_->failure(); }

StopReason OperationQueue::stop_reason() const { return state_->stop_reason(); }

absl::Status OperationQueue::StopError(const std::string& name,
                                       const std::vector<int>& missing) const {
  return ErrorOf(stop_reason(), name, missing);
}

}  // namespace dp::engine
