#include "worker/engine/collectives/nccl/nccl_pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"

namespace dp::engine {
namespace {

// NCCL and CUDA wake nobody, so the thread polls whether an operation is done. A fraction of the
// shortest all-reduce between hosts.
constexpr absl::Duration kPoll = absl::Microseconds(50);

// NCCL gives an operation to the stream in a thread of its own, mostly within 40 us, and the host
// may wait for that. The first of a communicator takes longer.
constexpr absl::Duration kPollGiving = absl::Microseconds(2);
constexpr absl::Duration kGivesWithin = absl::Microseconds(300);

// How long an expired operation waits for the store's answer before it fails without one, and an
// inquiry for the links.
constexpr absl::Duration kAnswerWithin = absl::Seconds(1);

}  // namespace

SuspicionTimes SuspicionTimesFor(absl::Duration timeout, absl::Duration interval_max) {
  SuspicionTimes times;
  times.timeout = timeout;
  times.quiet = timeout / 4;
  times.interval = std::min(timeout / 30, interval_max);
  times.patience = times.interval * 5 / 2;
  times.listen = times.interval * 4;
  return times;
}

NcclPipeline::NcclPipeline(const Parts& parts)
    : parts_(parts),
      communicator_(parts.communicator),
      last_end_(parts.clock.Now()),
      arrived_at_(last_end_) {}

NcclPipeline::~NcclPipeline() {
  now_ = parts_.clock.Now();
  for (Handle& operation : parts_.operations.Take()) line_.push_back(std::move(operation));
  BreakAborted(parts_.operations.aborted().value_or(absl::AbortedError("its group was closed")));
}

absl::Duration NcclPipeline::Step() {
  now_ = parts_.clock.Now();
  for (Handle& operation : parts_.operations.Take()) line_.push_back(std::move(operation));
  if (state_ == State::kRunning || state_ == State::kInquiring) {
    if (auto why = parts_.operations.aborted()) {
      BreakAborted(*why);
    } else if (auto broken = parts_.operations.broken()) {
      Break(*broken);  // it may explain the error that is inquired
    } else if (state_ == State::kInquiring) {
      Inquire();
    } else if (const absl::Status status = Advance(); !status.ok()) {
      Fail(status);
    } else if (now_ >= deadline()) {
      Expire();
    }
  } else {
    Refuse();
  }
  TellPart();
  return Pause();
}

absl::Duration NcclPipeline::Pause() const {
  if (state_ == State::kInquiring) return kPoll;
  if (line_.empty()) return parts_.times.interval;
  return giving_ && now_ - giving_since_ < kGivesWithin ? kPollGiving : kPoll;
}

void NcclPipeline::Refuse() {
  if (aborted_.has_value()) return BreakAborted(*aborted_);
  if (state_ == State::kBroken) return Break(failure_);
  Break(absl::FailedPreconditionError("the group has left: it runs nothing more"));
}

// Runs when idle, too: a peer's end may show before the next operation.
absl::Status NcclPipeline::Advance() {
  DP_RETURN_IF_ERROR(parts_.api.Ready(communicator_).status());
  DP_RETURN_IF_ERROR(GiveNext());
  DP_RETURN_IF_ERROR(NoteArrivals());
  return EndFinished();
}

// Gives as many operations as it can. An operation is given once the communicator reports ready; an
// event recorded earlier would not be behind it on the stream.
absl::Status NcclPipeline::GiveNext() {
  while (given_ < line_.size()) {
    NcclOperation& operation = *line_[given_];
    if (operation.leaves && !MayLeave()) break;
    if (!giving_) {
      DP_RETURN_IF_ERROR(Give(operation));
      giving_since_ = now_;
    }
    giving_ = true;
    DP_ASSIGN_OR_RETURN(const bool ready, parts_.api.Ready(communicator_));
    if (!ready) break;
    NcclEvent done;
    if (operation.means.enqueue) {
      DP_ASSIGN_OR_RETURN(done, RecordNcclEvent(parts_.api, parts_.stream));
    }
    parts_.operations.Given(operation, std::move(done));
    giving_ = false;
    ++given_;
  }
  return absl::OkStatus();
}

// When all operations before have ended.
bool NcclPipeline::MayLeave() const {
  return given_ == 0 && (!parts_.may_leave || parts_.may_leave());
}

absl::Status NcclPipeline::Give(NcclOperation& operation) {
  DP_RETURN_IF_ERROR(operation.means.computed.status());
  if (operation.leaves) return parts_.api.Finalize(communicator_);
  if (!operation.means.enqueue) return absl::OkStatus();
  DP_RETURN_IF_ERROR(parts_.api.WaitOnStream(parts_.stream, operation.means.computed->get()));
  return operation.means.enqueue(communicator_);
}

absl::Status NcclPipeline::NoteArrivals() {
  for (; arrived_in_line_ < line_.size(); ++arrived_in_line_) {
    const NcclOperation& operation = *line_[arrived_in_line_];
    if (!operation.means.enqueue) continue;
    DP_ASSIGN_OR_RETURN(const bool arrived, parts_.api.Passed(operation.means.computed->get()));
    if (!arrived) break;
    if (arrived_in_line_ == 0) arrived_at_ = now_;
  }
  if (!line_.empty() && given_ > 0 && arrived_in_line_ > 0) parts_.operations.Begun(*line_.front());
  return absl::OkStatus();
}

absl::Status NcclPipeline::EndFinished() {
  while (given_ > 0) {
    NcclOperation& operation = *line_.front();
    if (operation.means.done != nullptr) {
      DP_ASSIGN_OR_RETURN(const bool done, parts_.api.Passed(operation.means.done.get()));
      if (!done) break;
    }
    if (operation.leaves) {
      parts_.api.Destroy(std::exchange(communicator_, nullptr));
      state_ = State::kLeft;
    }
    parts_.operations.End(operation, absl::OkStatus());
    line_.pop_front();
    --given_;
    if (arrived_in_line_ > 0) --arrived_in_line_;
    ++ended_;
    last_end_ = now_;
  }
  return absl::OkStatus();
}

// A peer's fault needs an inquiry; any other error is conclusive.
void NcclPipeline::Fail(const absl::Status& why) {
  failure_ = absl::Status(why.code(), absl::StrCat(FrontName(), ": ", why.message()));
  if (!absl::IsUnavailable(why)) return Break(failure_);
  expired_ = false;
  failure_ = why;
  StopCommunicator();
}

void NcclPipeline::Expire() {
  expired_ = true;
  StopCommunicator();
}

// Peers hear that this rank gives up before its abort breaks their connections.
void NcclPipeline::StopCommunicator() {
  if (parts_.opinion != nullptr) parts_.opinion->Ask();
  state_ = State::kInquiring;
  stopped_at_ = now_;
  awaited_ = line_.empty() ? ended_ + 1 : line_.front()->number;
  TellPart();
  AbortCommunicator();
}

// The abort ends the communicator's kernels, and lets the peers know soon.
void NcclPipeline::AbortCommunicator() {
  if (communicator_ != nullptr) parts_.abort(std::exchange(communicator_, nullptr));
}

// After a deadline one answer is enough: this rank listened to its peers before the deadline. After
// an error it needs an answer about each peer. Some of several silent peers may only be computing
// for long. They see no error, and report once they have been quiet for too long themselves.
void NcclPipeline::Inquire() {
  const RollCall::Answer answer = parts_.roll_call.Ask();
  const absl::Duration waited = now_ - stopped_at_;
  if (!expired_ && parts_.has_caught_up && waited < kAnswerWithin && !parts_.has_caught_up())
    return;
  const bool answered = answer.read_at >= stopped_at_;
  if (!answered) {
    if (waited >= (expired_ ? kAnswerWithin : parts_.times.listen)) Break(Verdict(answer));
    return;
  }
  const bool known =
      answer.attendance.Complete(awaited_, now_) && answer.attendance.Silent(now_).size() <= 1;
  if (expired_ || known || waited >= parts_.times.quiet + parts_.times.listen)
    Break(Verdict(answer));
}

absl::Status NcclPipeline::Verdict(const RollCall::Answer& answer) const {
  const bool heard = answer.read_at >= stopped_at_;
  absl::Status verdict;
  if (!expired_) {
    verdict = ErrorVerdict(answer.attendance, heard);
  } else {
    std::vector<int> missing;
    if (heard) missing = answer.attendance.Missing(awaited_, over(), now_);
    verdict = DidNotArrive(FrontName(), missing, parts_.times.timeout);
  }
  const std::string words = parts_.opinion == nullptr ? "" : parts_.opinion->Words();
  return words.empty() ? verdict : WithMore(verdict, absl::StrCat("; ", words));
}

absl::Status NcclPipeline::ErrorVerdict(const Attendance& attendance, bool heard) const {
  const std::string own_words = absl::StrCat("; ", failure_.message());
  if (heard) {
    const std::vector<int> gone = attendance.Silent(now_);
    if (!gone.empty()) return WithMore(WentAway(FrontName(), gone), own_words);
    const std::vector<int> late = attendance.Missing(awaited_, over(), now_);
    if (!late.empty()) return WithMore(WaitedInVain(FrontName(), late), own_words);
  }
  return absl::UnavailableError(absl::StrCat(FrontName(), ": ", failure_.message()));
}

void NcclPipeline::Break(const absl::Status& verdict) {
  AbortCommunicator();
  state_ = State::kBroken;
  failure_ = verdict;
  parts_.operations.Break(verdict);
  for (; !line_.empty(); line_.pop_front()) parts_.operations.End(*line_.front(), failure_);
  given_ = 0;
}

// Each operation ends with its own error, which says that it was aborted.
void NcclPipeline::BreakAborted(const absl::Status& why) {
  AbortCommunicator();
  state_ = State::kBroken;
  aborted_ = why;
  for (; !line_.empty(); line_.pop_front())
    parts_.operations.End(*line_.front(), AbortedBecause(line_.front()->name, why));
  given_ = 0;
}

bool NcclPipeline::awaits_own_input() const {
  return !line_.empty() && line_.front()->means.enqueue && arrived_in_line_ == 0;
}

// A rank that still computes waits for nobody and has no deadline, however long it takes; the ranks
// that wait for it have one. Operations run one after another, so the time of an operation that was
// called early begins with the end of its predecessor.
absl::Time NcclPipeline::deadline() const {
  if (line_.empty() || awaits_own_input()) return absl::InfiniteFuture();
  return std::max({line_.front()->called, last_end_, arrived_at_}) + parts_.times.timeout;
}

bool NcclPipeline::Suspects() const {
  return state_ == State::kRunning && now_ - last_end_ >= parts_.times.quiet;
}

bool NcclPipeline::Asks() const {
  if (state_ == State::kInquiring) return true;
  return Suspects() && now_ >= deadline() - parts_.times.listen;
}

Over NcclPipeline::over() const {
  if (state_ == State::kRunning) return Over::kNot;
  return expired_ ? Over::kOutOfTime : Over::kGaveUp;
}

void NcclPipeline::TellPart() {
  if (parts_.opinion != nullptr && Asks()) parts_.opinion->Ask();
  parts_.roll_call.Tell(
      {.arrived = ended_ + static_cast<int64_t>(arrived_in_line_),
       .beating = Suspects(),
       .over = over(),
       .asking = Asks(),
       .fresh_from = state_ == State::kInquiring ? stopped_at_ : absl::InfinitePast()});
}

const std::string& NcclPipeline::FrontName() const {
  static const std::string idle = "the group, between two operations";
  return line_.empty() ? idle : line_.front()->name;
}

}  // namespace dp::engine
