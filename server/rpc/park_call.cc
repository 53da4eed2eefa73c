#include "server/rpc/park_call.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/convert/convert_call.h"
#include "server/rpc/call.h"

namespace dp::server {
namespace {

// Bytes of the answers in one message; a single answer may have more.
constexpr size_t kAnswerBytesPerMessage = size_t{1} << 20;

absl::Duration TimeoutOf(const v1::AwaitRequest& request) {
  return request.has_timeout() ? BoundedWait(request.timeout()) : absl::InfiniteDuration();
}

v1::ParkedAnswer ToAnswer(uint64_t id, const absl::Status& status, v1::AwaitResponse* response) {
  v1::ParkedAnswer answer;
  answer.set_id(id);
  answer.set_code(static_cast<int>(status.code()));
  answer.set_message(std::string(status.message()));
  if (status.ok()) *answer.mutable_response() = std::move(*response);
  return answer;
}

}  // namespace

ParkCall::ParkCall(const Admission& admission, Prepare prepare, const Limits& limits)
    : admission_(admission),
      prepare_(std::move(prepare)),
      limits_(limits),
      own_ticket_(admission.NewTicket()) {}

void ParkCall::Start() {
  const absl::Status queued = admission_.Wait(
      own_ticket_, {}, absl::InfiniteDuration(),
      [this](Waiters::Wake wake, const View& view) { return AskedForEnd(wake, view); });
  bool act;
  {
    MutexLock lock(mu_);
    if (!queued.ok()) own_open_ = false;
    if (!queued.ok()) BeginEnd(queued);
    act = MayAct();
  }
  if (act) Act();
}

void ParkCall::OnReadDone(bool ok) {
  if (!ok) return ClientGone();
  const bool too_many = static_cast<size_t>(request_.waits_size()) > limits_.waits;
  if (!too_many) {
    for (const v1::ParkedWait& wait : request_.waits()) Begin(wait);
    GiveUp(request_);
  }
  std::vector<Waiters::Ticket> given_up;
  bool act;
  {
    MutexLock lock(mu_);
    if (too_many) BeginEnd(absl::InvalidArgumentError("a message has too many waits"));
    // Includes waits that reached the driver after their cancellation.
    if (ending_) given_up = OpenTickets();
    reading_ = false;
    act = MayAct();
  }
  if (!given_up.empty()) admission_.Cancel(std::move(given_up));
  if (act) Act();
}

void ParkCall::Begin(const v1::ParkedWait& wait) {
  auto parked = std::make_shared<Parked>();
  parked->id = wait.id();
  parked->job = JobId(wait.await().job());
  parked->ticket = admission_.NewTicket();
  parked->bytes = wait.await().ByteSizeLong();
  auto prepared = prepare_(wait.await(), &parked->response);
  if (!Admit(parked, prepared.status())) return;
  const absl::Status queued =
      admission_.Part(prepared->object)
          .Wait(
              parked->ticket, std::move(prepared->topics), TimeoutOf(wait.await()),
              [this, parked, answer = std::move(prepared->answer)](Waiters::Wake wake,
                                                                   const View& view) {
                return Asked(*parked, answer, wake, view);
              },
              std::move(prepared->blocked));
  if (queued.ok()) return;
  MutexLock lock(mu_);
  Stands(*parked);
  Settle(*parked, queued, Waiters::Wake::kRefused);
}

bool ParkCall::Admit(const std::shared_ptr<Parked>& parked, const absl::Status& prepared) {
  MutexLock lock(mu_);
  if (open_.contains(parked->id)) {
    BeginEnd(absl::InvalidArgumentError(absl::StrCat("wait ", parked->id, " is open already")));
  }
  if (ending_) return false;
  const absl::Status admitted = prepared.ok() ? CheckRoom(parked->bytes) : prepared;
  if (!admitted.ok()) {
    Tell(parked->id, admitted, nullptr);
    return false;
  }
  open_[parked->id] = parked;
  open_bytes_ += parked->bytes;
  ++not_standing_;
  return true;
}

void ParkCall::GiveUp(const v1::ParkRequest& request) {
  std::vector<Waiters::Ticket> given_up;
  {
    MutexLock lock(mu_);
    for (const uint64_t id : request.cancelled()) {
      const auto it = open_.find(id);
      if (it != open_.end()) given_up.push_back(it->second->ticket);
    }
  }
  if (!given_up.empty()) admission_.Cancel(std::move(given_up));
}

void ParkCall::OnWriteDone(bool ok) {
  if (!ok) ClientGone();
  bool act;
  {
    MutexLock lock(mu_);
    unsent_bytes_ -= std::exchange(writing_bytes_, 0);
    writing_ = false;
    act = MayAct();
  }
  if (act) Act();
}

void ParkCall::ClientGone() {
  std::vector<Waiters::Ticket> given_up;
  bool act;
  {
    MutexLock lock(mu_);
    if (!ending_) given_up = OpenTickets();
    BeginEnd(EndOfWait(Waiters::Wake::kCancelled));
    unsent_.clear();
    act = MayAct();
  }
  if (!given_up.empty()) admission_.Cancel(std::move(given_up));
  if (act) Act();
}

bool ParkCall::Asked(Parked& parked, const StoreWait::Answer& answer, Waiters::Wake wake,
                     const View& view) {
  const bool last = wake == Waiters::Wake::kDeadline;
  const bool asks = wake == Waiters::Wake::kChanged || last;
  std::optional<absl::Status> status = asks ? answer(view, last) : EndOfWait(wake, view.failure);
  // This is no overload of the coordinator: the client retries this wait later, and goes on with
  // the others.
  if (wake == Waiters::Wake::kRefused) status = view.waiters.CheckRoomInStore(parked.job);
  bool act;
  {
    MutexLock lock(mu_);
    Stands(parked);
    if (status.has_value()) Settle(parked, *status, wake);
    act = MayAct();
  }
  if (act) Act();
  return status.has_value();
}

bool ParkCall::AskedForEnd(Waiters::Wake wake, const View& view) {
  if (wake == Waiters::Wake::kChanged) return false;
  std::vector<Waiters::Ticket> given_up;
  bool act;
  {
    MutexLock lock(mu_);
    own_open_ = false;
    BeginEnd(EndOfWait(wake, view.failure));
    // If refused, the coordinator has no room for another wait, and goes on. If denied, it goes on
    // without this caller.
    if (wake == Waiters::Wake::kRefused || wake == Waiters::Wake::kDenied) given_up = OpenTickets();
    act = MayAct();
  }
  if (!given_up.empty()) admission_.Cancel(std::move(given_up));  // until then they are open
  if (act) Act();
  return true;
}

absl::Status ParkCall::CheckRoom(size_t bytes) const {
  if (open_.size() < limits_.waits && open_bytes_ + bytes <= limits_.bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("the stream has ", open_.size(), " waits of ", open_bytes_,
                   " bytes already, which is the limit; let fewer processes wait at once"));
}

void ParkCall::Stands(Parked& parked) {
  if (!std::exchange(parked.standing, true)) --not_standing_;
}

void ParkCall::Settle(Parked& parked, const absl::Status& status, Waiters::Wake wake) {
  open_bytes_ -= parked.bytes;
  open_.erase(parked.id);  // its question still owns it
  if (wake == Waiters::Wake::kStopping) BeginEnd(status);
  if (wake != Waiters::Wake::kCancelled && !ending_) Tell(parked.id, status, &parked.response);
}

void ParkCall::Tell(uint64_t id, const absl::Status& status, v1::AwaitResponse* response) {
  v1::ParkedAnswer answer = ToAnswer(id, status, response);
  size_t bytes = answer.ByteSizeLong();
  if (unsent_bytes_ + bytes > limits_.unsent_bytes) {
    const auto later = absl::DeadlineExceededError("too many answers are on their way; ask again");
    answer = ToAnswer(id, later, nullptr);
    bytes = answer.ByteSizeLong();
  }
  unsent_bytes_ += bytes;
  unsent_.push_back({std::move(answer), bytes});
}

void ParkCall::BeginEnd(const absl::Status& status) {
  if (!std::exchange(ending_, true)) end_ = status;
}

std::vector<Waiters::Ticket> ParkCall::OpenTickets() const {
  std::vector<Waiters::Ticket> tickets;
  if (own_open_) tickets.push_back(own_ticket_);
  for (const auto& [id, parked] : open_) tickets.push_back(parked->ticket);
  return tickets;
}

void ParkCall::Act() {
  for (;;) {
    Step step;
    grpc::Status end;
    {
      MutexLock lock(mu_);
      step = NextStep();
      if (step == Step::kFinish) end = ToGrpc(end_);
    }
    if (step == Step::kRest) return;
    if (step == Step::kFinish) return Finish(end);
    if (step == Step::kRead) StartRead(&request_);
    if (step == Step::kWrite) StartWrite(&response_);
  }
}

ParkCall::Step ParkCall::NextStep() {
  if (!writing_ && !unsent_.empty()) {
    TakeAnswers();
    writing_ = true;
    return Step::kWrite;
  }
  if (MayFinish()) return Step::kFinish;
  if (MayRead()) {
    reading_ = true;
    return Step::kRead;
  }
  acting_ = false;
  return Step::kRest;
}

bool ParkCall::MayRead() const {
  return !ending_ && !reading_ && not_standing_ == 0 && unsent_.size() < limits_.waits;
}

bool ParkCall::MayFinish() const { return ending_ && open_.empty() && !own_open_ && !writing_; }

void ParkCall::TakeAnswers() {
  response_.Clear();
  do {
    writing_bytes_ += unsent_.front().bytes;
    *response_.add_answers() = std::move(unsent_.front().answer);
    unsent_.pop_front();
  } while (!unsent_.empty() && writing_bytes_ + unsent_.front().bytes <= kAnswerBytesPerMessage);
}

}  // namespace dp::server
