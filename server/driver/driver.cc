#include "server/driver/driver.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "base/status.h"
#include "server/driver/busy.h"
#include "server/driver/event_log.h"
#include "server/policy/due_jobs.h"
#include "server/policy/handovers.h"
#include "server/policy/liveness.h"
#include "server/policy/verdicts.h"
#include "store/operation_bytes.h"

namespace dp::server {
namespace {

// A caller that is offered an element takes it at once, unless the caller has gone.
constexpr absl::Duration kPromise = absl::Seconds(10);

// Often enough for a disk that is filled and cleared by hand.
constexpr absl::Duration kTendDiskEvery = absl::Seconds(5);

// Approximate bytes of an action's large parts: the keys and values of a batch, the spec of a job.
size_t BytesOf(const core::Action& action) {
  if (const auto* job = std::get_if<core::SubmitJob>(&action)) return job->spec.payload.size();
  const auto* batch = std::get_if<core::StoreBatch>(&action);
  if (batch == nullptr) return 0;
  size_t bytes = 0;
  for (const StoreOperation& operation : batch->operations) bytes += dp::BytesOf(operation);
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Driver>> Driver::Start(const Options& options, Journal& journal,
                                                      const Clock& clock, OnEnd on_end) {
  std::unique_ptr<Driver> driver(new Driver(options, journal, clock, std::move(on_end)));
  DP_RETURN_IF_ERROR(driver->Recover());
  driver->thread_ = std::jthread([raw = driver.get()] { raw->Run(); });
  return driver;
}

Driver::Driver(const Options& options, Journal& journal, const Clock& clock, OnEnd on_end)
    : options_(options),
      journal_(journal),
      clock_(clock),
      on_end_(std::move(on_end)),
      queue_(options.queue_capacity),
      liveness_(options.lease),
      waiters_(options.waiting_capacity),
      cancelled_waits_(options.queue_capacity),
      offers_(kPromise) {
  policy_ = options.placement;
  if (!options.store_port_usable) return;
  policy_.ports.usable = [this](JobId job, int port) {
    return options_.store_port_usable(*coordinator_.job(job), port);
  };
}

Driver::~Driver() { Stop(); }

absl::Status Driver::Submit(core::Action action, OnOutcome done, Submitter submitter) {
  const size_t bytes = BytesOf(action);
  const size_t queued = queued_bytes_.fetch_add(bytes);
  absl::Status status;
  if (queued > 0 && queued + bytes > options_.queue_bytes_max) {
    status = Busy(absl::StrCat(options_.queue_bytes_max >> 20, " MiB of requests"));
  } else {
    status = Push(CommandItem{std::move(action), std::move(done), {}, bytes, std::move(submitter)});
  }
  if (!status.ok()) queued_bytes_ -= bytes;
  return status;
}

absl::Status Driver::Ask(OnAnswer done) { return Push(AskItem{std::move(done)}); }

std::optional<Heartbeats::Renewal> Driver::Renew(WorkerId worker, Incarnation incarnation,
                                                 uint64_t lease_number, std::string name) {
  return heartbeats_.Note(
      {worker, incarnation, clock_.Now() + behind_, lease_number, std::move(name)});
}

absl::Status Driver::Hear(WorkerId worker, Incarnation incarnation, OnAnswer done,
                          uint64_t lease_number, Permit permit) {
  return Push(HearItem{worker, incarnation, lease_number, std::move(done), std::move(permit), {}});
}

absl::Status Driver::TellLogs(JobId job, uint64_t version, OnAnswer done) {
  return Push(LogsItem{job, version, std::move(done)});
}

absl::Status Driver::Wait(Waiters::Ticket ticket, std::vector<core::Topic> topics,
                          absl::Duration timeout, Question question,
                          std::optional<BlockedCall> blocked) {
  return Push(
      WaitItem{ticket, std::move(topics), timeout, std::move(question), std::move(blocked)});
}

void Driver::Cancel(std::vector<Waiters::Ticket> tickets) {
  {
    MutexLock lock(mu_);
    cancelled_.insert(cancelled_.end(), tickets.begin(), tickets.end());
  }
  (void)Push(CancelItem{});  // rejected: the thread is going to turn again, or ends all waits
}

std::vector<Waiters::Ticket> Driver::TakeCancelled() {
  MutexLock lock(mu_);
  return std::exchange(cancelled_, {});
}

void Driver::Stop() {
  queue_.Close();
  if (thread_.joinable()) thread_.join();
}

absl::Status Driver::Push(Item item) {
  if (queue_.TryPush(item)) return absl::OkStatus();
  if (queue_.closed()) {
    MutexLock lock(mu_);
    return Ended(told_failure_);
  }
  return Busy(absl::StrCat(options_.queue_capacity, " requests"));
}

// If the clock is set back, time pauses rather than go back. `behind_` is for a clock that is
// behind at the start.
absl::Time Driver::Now() const { return std::max(now_, clock_.Now() + behind_); }

void Driver::Run() {
  pthread_setname_np(pthread_self(), "dp-driver");
  while (failure_.ok()) {
    // Taken before the queue is drained: the waits of these tickets are queued by then.
    cancelled_waits_.Add(TakeCancelled());
    const bool cancels = !cancelled_waits_.empty();
    const absl::Duration patience = cancels ? absl::ZeroDuration() : UntilNextWake();
    std::vector<Item> items = queue_.DrainFor(patience, options_.batch_max);
    if (items.empty() && queue_.closed()) break;
    Serve(items);
    queued_bytes_ -= BytesIn(items);
    if (options_.notify != nullptr) options_.notify->Alive(clock_.Now());
  }
  heartbeats_.Close();
  queue_.Close();
  std::vector<Item> late = queue_.DrainFor(absl::ZeroDuration());
  AnswerAllEnded(late);
  waiters_.Stop();
  on_end_(failure_);
}

void Driver::Serve(std::vector<Item>& items) {
  // One time for the batch, so that no command is older than the one before.
  now_ = Now();
  available_.reset();
  heartbeats_.TellLiveness(coordinator_, liveness_, now_);
  for (Item& item : items) Take(item);
  // After the heartbeats of this batch: a heartbeat that waited in the queue still counts. Before
  // the sync, so that the verdicts share it.
  ApplyVerdicts();
  Fail(Persist());
  if (!failure_.ok()) {
    AnswerAllEnded(items);
    return;
  }
  // The caller that made a change is answered before those that wait for the change.
  for (Item& item : items) Answer(item);
  const std::vector<core::Topic> changed = std::exchange(changed_, {});
  waiters_.WakeChanged(changed);
  for (const core::Topic& topic : changed) offers_.OnChange(topic);
  // After the wake-ups: a wait learns of changes after its first look, not of those that it has
  // seen.
  for (Item& item : items) Attend(item);
  cancelled_waits_.Cancel(waiters_, items.size(), items.size() == options_.batch_max);
  OfferElements();
  waiters_.Expire(now_);
  TellForgotten();
  Fail(MaintainJournal());
}

void Driver::Fail(absl::Status failure) {
  failure_ = std::move(failure);
  if (failure_.ok()) return;
  {
    MutexLock lock(mu_);
    told_failure_ = failure_;
  }
  Log(Severity::kError, "journal_failed", {{"error", failure_.ToString()}});
}

core::Outcome Driver::Apply(core::Action action, std::string actor) {
  core::Command command{now_, std::move(action), std::move(actor)};
  const std::string removed = NameToRemove(command, coordinator_);
  core::Outcome outcome = coordinator_.Apply(command);
  LogEvents(command, outcome, coordinator_, removed);
  look_ = std::max(look_, core::LookAfter(command.action, outcome));
  forgotten_.insert(forgotten_.end(), outcome.forgotten.begin(), outcome.forgotten.end());
  absl::c_move(std::exchange(outcome.changed, {}), std::back_inserter(changed_));
  if (const auto* registered = std::get_if<core::RegisterWorker>(&command.action)) {
    const auto* worker = std::get_if<WorkerId>(&outcome.reply);
    if (outcome.status.ok() && worker) Welcome(*worker, registered->incarnation);
  } else if (const auto* revoked = std::get_if<core::RevokeAccess>(&command.action)) {
    const auto worker = coordinator_.state().workers.IdOf(revoked->name);
    if (outcome.status.ok() && revoked->worker && worker.ok()) liveness_.Revoke(*worker);
    publish_ = true;
  } else if (const auto* leaving = std::get_if<core::LeaveWorker>(&command.action)) {
    // LeaveWorker came by heartbeat, and counts as one.
    if (outcome.status.ok()) {
      liveness_.Hear(leaving->worker, leaving->incarnation, now_);
      liveness_.Leave(leaving->worker);
    }
  } else if (const auto* lost = std::get_if<core::LoseWorker>(&command.action)) {
    liveness_.Forget(lost->worker);
  }
  if (outcome.journal) {
    unsynced_bytes_ += BytesOf(command.action);
    unsynced_.push_back(std::move(command));
  }
  return outcome;
}

// A repeated registration does not change the machine, but offers the worker's lease anew. The
// daemon must learn the number of this offer.
void Driver::Welcome(WorkerId worker, Incarnation incarnation) {
  liveness_.Welcome(worker, incarnation, now_);
  publish_ = true;
}

bool Driver::Lose(core::LoseWorker verdict) {
  if (!heartbeats_.Revoke(verdict.worker)) return false;
  (void)Apply(std::move(verdict));  // accepted: liveness_ has forgotten workers lost in other ways
  return true;
}

// The policies' decisions become commands of the same batch: lost workers first, then the rest.
void Driver::ApplyVerdicts() {
  const size_t held_before = liveness_.held_back();
  if (now_ >= liveness_.next_look()) {
    for (core::LoseWorker& verdict : liveness_.Overdue(now_)) (void)Lose(std::move(verdict));
  }
  if (held_before == 0 && liveness_.held_back() > 0) {
    Log(Severity::kError, "evictions_held", {{"silent_workers", liveness_.held_back()}});
  }
  const core::Look look = std::exchange(look_, core::Look::kNever);
  if (look == core::Look::kSoon) plan_again_at_ = std::min(plan_again_at_, now_ + kLookSoon);
  if (now_ < plan_again_at_ && look != core::Look::kAtOnce) return;
  ApplyPolicies();
  look_ = core::Look::kNever;  // this look includes the verdicts' own changes
  publish_ = true;
}

void Driver::ApplyPolicies() {
  core::Placement placement = core::ApplyVerdicts(
      coordinator_, liveness_, late_ranks_, policy_, now_,
      [this](core::Action verdict) { (void)Apply(std::move(verdict)); });  // on this very state
  for (core::Action& ask : core::AskToLeave(coordinator_, placement.leave, now_)) {
    (void)Apply(std::move(ask));
  }
  core::OfferLeases(coordinator_, liveness_, now_);
  waiting_ = std::move(placement.waiting);
  // Includes the deadlines of the jobs that were placed just now.
  const absl::Time next_due = core::FindDueJobs(coordinator_, now_).next_at;
  plan_again_at_ = std::min({placement.again_at, next_due, late_ranks_.next_at()});
}

absl::Status Driver::Persist() {
  if (!unsynced_.empty()) {
    DP_RETURN_IF_ERROR(journal_.Append(unsynced_));
    unsynced_.clear();
    unsynced_bytes_ = 0;
    available_.reset();
    heartbeats_.Advance(coordinator_.revision());
  }
  if (std::exchange(publish_, false)) heartbeats_.Publish(coordinator_, liveness_);
  return absl::OkStatus();
}

absl::Status Driver::MaintainJournal() {
  if (options_.tend_disk && now_ >= tend_disk_at_) {
    options_.tend_disk();
    tend_disk_at_ = now_ + kTendDiskEvery;
  }
  if (!journal_.compacting() && SnapshotDue()) journal_.TakeSnapshot(coordinator_.state());
  return journal_.Maintain();
}

bool Driver::SnapshotDue() {
  const JournalTail tail = journal_.tail();
  const bool due = options_.snapshots.Due(tail);
  if (!options_.disk_available) return due;
  const bool frees = forgot_for_room_ && SnapshotFreesRoom(coordinator_, tail);
  if (!due && !frees) return false;
  const bool has_room =
      HasRoomForSnapshot(coordinator_, Room(std::numeric_limits<uint64_t>::max()));
  if (!has_room && !std::exchange(snapshot_postponed_, true)) {
    Log(Severity::kWarning, "snapshot_postponed",
        {{"reason", "the disk of the journal has no room for it; make room there"}});
  }
  if (has_room) snapshot_postponed_ = forgot_for_room_ = false;
  return has_room;
}

void Driver::TellForgotten() {
  if (forgotten_.empty()) return;
  for (const JobId job : forgotten_) log_versions_.erase(job);
  if (!options_.on_forgotten || options_.on_forgotten(forgotten_)) forgotten_.clear();
}

void Driver::OfferElements() {
  const auto length = [this](const core::Topic& queue) -> size_t {
    const core::Job* job = coordinator_.job(JobId(queue.id));
    if (job == nullptr) return 0;
    const auto store = coordinator_.store(job->id, job->generation);
    if (!store.ok()) return 0;
    const auto elements = (*store)->queues().find(queue.key);
    return elements == (*store)->queues().end() ? 0 : elements->second.size();
  };
  offers_.Offer(now_, length, waiters_);
}

absl::Duration Driver::UntilNextWake() const {
  if (journal_.compacting()) return absl::ZeroDuration();
  const absl::Time next = std::min(
      {waiters_.next_deadline(), offers_.next_deadline(), plan_again_at_, liveness_.next_look()});
  const absl::Duration pulse =
      options_.notify != nullptr ? options_.notify->pulse() : absl::InfiniteDuration();
  return std::min(next - Now(), pulse);
}

View Driver::MakeView() const {
  return {coordinator_, liveness_, waiting_, log_versions_, waiters_, now_, {}, failure_};
}

}  // namespace dp::server
