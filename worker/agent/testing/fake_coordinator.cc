#include "worker/agent/testing/fake_coordinator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "proto/convert/time.h"

namespace dp::worker {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr uint64_t kWorkerId = 5;

std::string Describe(const v1::ReportRankRequest& report) {
  std::string text = absl::StrCat("rank ", report.rank());
  if (report.state() == v1::RANK_STATE_STARTED) return text + " started";
  if (report.state() == v1::RANK_STATE_RELEASED) return text + " released";
  absl::StrAppend(&text, " exited");
  if (!report.error().empty()) absl::StrAppend(&text, " error: ", report.error());
  if (report.exit().has_code()) absl::StrAppend(&text, " code ", report.exit().code());
  if (report.exit().has_signal()) absl::StrAppend(&text, " signal ", report.exit().signal());
  if (report.oom()) absl::StrAppend(&text, " out of memory");
  if (report.last_lines_size() > 0) {
    absl::StrAppend(&text, ": ", *report.last_lines().rbegin());
  }
  return text;
}

}  // namespace

std::string FakeCoordinator::NextHeard() {
  if (unread_.empty()) unread_ = heard_.DrainFor(kPatience);
  if (unread_.empty()) return "timeout";
  std::string next = unread_.front();
  unread_.erase(unread_.begin());
  return next;
}

void FakeCoordinator::Hear(std::string what) { DP_CHECK(heard_.TryPush(what)); }

void FakeCoordinator::SetReachable(bool reachable) {
  MutexLock lock(mu_);
  reachable_ = reachable;
  changed_.NotifyAll();
}

void FakeCoordinator::Restart() {
  MutexLock lock(mu_);
  ++epoch_;
  gpu_uses_.clear();
  changed_.NotifyAll();
}

void FakeCoordinator::SetUpAnew() {
  MutexLock lock(mu_);
  ++epoch_;
  current_ = 0;
  assignment_.Clear();
  changed_.NotifyAll();
}

void FakeCoordinator::GoOnFromACopy(const std::vector<v1::AssignedRank>& ranks) {
  MutexLock lock(mu_);
  ++epoch_;
  Give(ranks, assignment_.version() - 1);
}

void FakeCoordinator::LoseWorker() {
  MutexLock lock(mu_);
  current_ = 0;
  assignment_.clear_ranks();
  changed_.NotifyAll();
}

void FakeCoordinator::RevokeWorker() {
  MutexLock lock(mu_);
  revoked_ = true;
  assignment_.clear_ranks();
  changed_.NotifyAll();
}

void FakeCoordinator::GiveLease(Incarnation incarnation) {
  MutexLock lock(mu_);
  current_ = incarnation.value();
}

void FakeCoordinator::LoseReports(int reports) {
  MutexLock lock(mu_);
  reports_to_lose_ = reports;
}

void FakeCoordinator::HoldName(const std::string& name, Silence silence) {
  MutexLock lock(mu_);
  held_name_ = name;
  silence_ = std::move(silence);
  registrations_ = absl::AlreadyExistsError(absl::StrCat(name, " is taken"));
}

void FakeCoordinator::FreeName() {
  MutexLock lock(mu_);
  held_name_.clear();
  registrations_ = absl::OkStatus();
}

void FakeCoordinator::RefuseRegistrations(const absl::Status& status) {
  MutexLock lock(mu_);
  registrations_ = status;
}

void FakeCoordinator::RefuseListings(const absl::Status& status) {
  MutexLock lock(mu_);
  refused_listings_ = status;
}

void FakeCoordinator::Assign(const std::vector<v1::AssignedRank>& ranks) {
  MutexLock lock(mu_);
  Give(ranks, assignment_.version() + 1);
}

void FakeCoordinator::Give(const std::vector<v1::AssignedRank>& ranks, uint64_t version) {
  assignment_.set_version(version);
  assignment_.clear_ranks();
  for (v1::AssignedRank rank : ranks) {
    rank.set_job(1);
    rank.set_generation(1);
    rank.mutable_spec()->mutable_train();
    *assignment_.add_ranks() = rank;
  }
  changed_.NotifyAll();
}

void FakeCoordinator::AwaitRegistrationsRefused(int refused) {
  MutexLock lock(mu_);
  AwaitUntil([&]() DP_REQUIRES(mu_) { return registrations_refused_ >= refused; });
}

std::vector<uint64_t> FakeCoordinator::replaced() const {
  MutexLock lock(mu_);
  return replaced_;
}

std::vector<uint64_t> FakeCoordinator::AwaitReplaced(size_t count) {
  MutexLock lock(mu_);
  AwaitUntil([&]() DP_REQUIRES(mu_) { return replaced_.size() == count; });
  return replaced_;
}

bool FakeCoordinator::leaving() const {
  MutexLock lock(mu_);
  return leaving_;
}

bool FakeCoordinator::AwaitLeaving() {
  MutexLock lock(mu_);
  AwaitUntil([&]() DP_REQUIRES(mu_) { return leaving_; });
  return leaving_;
}

bool FakeCoordinator::AwaitGpuUse(int percent) {
  MutexLock lock(mu_);
  AwaitUntil([&]() DP_REQUIRES(mu_) { return gpu_uses_.contains(percent); });
  return gpu_uses_.contains(percent);
}

void FakeCoordinator::AwaitListings(int listings) {
  MutexLock lock(mu_);
  AwaitUntil([&]() DP_REQUIRES(mu_) { return listings_ >= listings; });
}

bool FakeCoordinator::stopped(int rank) const {
  MutexLock lock(mu_);
  return stopped_.contains(rank);
}

void FakeCoordinator::CancelAll() {
  connection_->CancelAll();
  MutexLock lock(mu_);
  cancelled_ = true;
  changed_.NotifyAll();
}

void FakeCoordinator::AwaitUntil(const std::function<bool()>& holds) {
  const absl::Time deadline = Clock::System().Now() + kPatience;
  while (!holds()) {
    const absl::Duration left = deadline - Clock::System().Now();
    if (left <= absl::ZeroDuration()) return;
    changed_.WaitFor(mu_, left);
  }
}

absl::Status FakeCoordinator::CheckNetwork() const {
  if (cancelled_) return absl::CancelledError("cancelled");
  return reachable_ ? absl::OkStatus() : absl::UnavailableError("connection refused");
}

absl::Status FakeCoordinator::CheckLease(uint64_t incarnation) const {
  DP_RETURN_IF_ERROR(CheckNetwork());
  if (incarnation == current_) return absl::OkStatus();
  return absl::FailedPreconditionError("the lease has run out");
}

absl::StatusOr<v1::RegisterResponse> FakeCoordinator::Register(const v1::RegisterRequest& request) {
  during_();
  MutexLock lock(mu_);
  DP_RETURN_IF_ERROR(CheckNetwork());
  replaced_.assign(request.replaces().begin(), request.replaces().end());
  registrations_refused_ += !registrations_.ok();
  changed_.NotifyAll();
  DP_RETURN_IF_ERROR(registrations_);
  auto known = std::find(incarnations_.begin(), incarnations_.end(), request.incarnation());
  known = known == incarnations_.end()
              ? incarnations_.insert(incarnations_.end(), request.incarnation())
              : known;
  current_ = request.incarnation();
  for (const v1::Gpu& gpu : request.gpu_list()) gpu_uses_.insert(gpu.utilisation_percent());
  changed_.NotifyAll();
  Hear(absl::StrCat("register ",
                    std::string(1, static_cast<char>('a' + (known - incarnations_.begin())))));
  v1::RegisterResponse response;
  response.mutable_header()->set_epoch(epoch_);
  response.set_worker_id(kWorkerId);
  response.set_name(request.name().empty() ? "host" : request.name());
  response.mutable_lease()->set_nanos(80'000'000);
  return response;
}

void FakeCoordinator::OfferLease(absl::Duration lease, uint64_t number) {
  MutexLock lock(mu_);
  *offer_.mutable_lease() = ToProto(lease);
  offer_.set_lease_number(number);
}

bool FakeCoordinator::AwaitLease(uint64_t number) {
  MutexLock lock(mu_);
  AwaitUntil([&]() DP_REQUIRES(mu_) { return lease_known_ == number; });
  return lease_known_ == number;
}

absl::StatusOr<v1::HeartbeatResponse> FakeCoordinator::Heartbeat(
    const v1::HeartbeatRequest& request) {
  during_();
  MutexLock lock(mu_);
  if (revoked_) return absl::UnauthenticatedError("the certificate was revoked");
  DP_RETURN_IF_ERROR(CheckLease(request.incarnation()));
  leaving_ = request.leaving();
  lease_known_ = request.lease_number();
  for (const v1::Gpu& gpu : request.gpu_list()) gpu_uses_.insert(gpu.utilisation_percent());
  changed_.NotifyAll();
  v1::HeartbeatResponse response = offer_;
  response.mutable_header()->set_epoch(epoch_);
  return response;
}

absl::StatusOr<v1::WatchAssignmentResponse> FakeCoordinator::WatchAssignment(
    const v1::WatchAssignmentRequest& request) {
  MutexLock lock(mu_);
  for (;;) {
    DP_RETURN_IF_ERROR(CheckLease(request.incarnation()));
    if (assignment_.version() != request.since()) break;
    changed_.Wait(mu_);
  }
  v1::WatchAssignmentResponse response;
  *response.mutable_assignment() = assignment_;
  return response;
}

absl::StatusOr<v1::ReportRankResponse> FakeCoordinator::ReportRank(
    const v1::ReportRankRequest& request) {
  MutexLock lock(mu_);
  WaitIfHeld(hold_reports_);
  if (std::exchange(reject_report_, false)) return absl::NotFoundError("no such job");
  if (reports_to_lose_ > 0) {
    --reports_to_lose_;
    return absl::UnavailableError("connection reset");
  }
  DP_RETURN_IF_ERROR(CheckLease(request.incarnation()));
  if (request.stopped()) stopped_.insert(request.rank());
  Hear(Describe(request));
  return v1::ReportRankResponse();
}

absl::StatusOr<v1::ReportSlotsResponse> FakeCoordinator::ReportSlots(
    const v1::ReportSlotsRequest& request) {
  MutexLock lock(mu_);
  DP_RETURN_IF_ERROR(CheckNetwork());
  DP_RETURN_IF_ERROR(CheckLease(request.incarnation()));
  std::string heard = absl::StrCat("slots ", request.number());
  for (const v1::UnhealthySlot& slot : request.unhealthy()) {
    absl::StrAppend(&heard, ", ", slot.slot(), ": ", slot.reason());
  }
  Hear(heard);
  return v1::ReportSlotsResponse();
}

absl::StatusOr<v1::ListWorkersResponse> FakeCoordinator::List(const v1::ListWorkersRequest&) {
  MutexLock lock(mu_);
  ++listings_;
  changed_.NotifyAll();
  DP_RETURN_IF_ERROR(CheckNetwork());
  DP_RETURN_IF_ERROR(refused_listings_);
  v1::ListWorkersResponse response;
  if (!drained_.name().empty()) *response.add_workers() = drained_;
  if (!next_drain_.empty()) drained_.set_reason(std::exchange(next_drain_, ""));
  if (!held_name_.empty()) {
    v1::Worker* holder = response.add_workers();
    holder->set_name(held_name_);
    holder->set_state(v1::WORKER_STATE_READY);
    holder->mutable_silent_for()->set_nanos(silence_(listings_));
    return response;
  }
  v1::Worker* worker = response.add_workers();
  worker->set_id(kWorkerId);
  worker->set_state(v1::WORKER_STATE_READY);
  return response;
}

void FakeCoordinator::DrainWorker(const std::string& name, const std::string& reason) {
  MutexLock lock(mu_);
  drained_.set_name(name);
  drained_.set_drained(true);
  drained_.set_reason(reason);
}

void FakeCoordinator::DrainWorkerOnceListed(const std::string& reason) {
  MutexLock lock(mu_);
  next_drain_ = reason;
}

absl::StatusOr<v1::UndrainResponse> FakeCoordinator::Undrain(const v1::UndrainRequest& request) {
  MutexLock lock(mu_);
  DP_RETURN_IF_ERROR(CheckNetwork());
  if (!request.reason().empty() && request.reason() != drained_.reason()) {
    Hear(absl::StrCat("undrain refused: ", request.worker()));
    return absl::FailedPreconditionError("drained for another reason");
  }
  Hear(absl::StrCat("undrain ", request.worker()));
  return v1::UndrainResponse();
}

}  // namespace dp::worker
