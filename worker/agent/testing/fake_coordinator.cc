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

void FakeCoordinator::RefuseLogs(const absl::Status& status) {
  MutexLock lock(mu_);
  logs_ = status;
}

void FakeCoordinator::RefuseLogsInTurn(const std::vector<absl::Status>& statuses) {
  MutexLock lock(mu_);
  logs_in_turn_.assign(statuses.begin(), statuses.end());
}

void FakeCoordinator::LoseLogsBeyond(v1::LogStream stream, size_t size) {
  MutexLock lock(mu_);
  stored_[stream].resize(size);
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

std::string FakeCoordinator::AwaitLog(v1::LogStream stream, const std::string& text) {
  MutexLock lock(mu_);
  AwaitUntil([&]() DP_REQUIRES(mu_) { return stored_[stream] == text; });
  return stored_[stream];
}

size_t FakeCoordinator::AwaitLogSize(v1::LogStream stream, size_t size) {
  MutexLock lock(mu_);
  AwaitUntil([&]() DP_REQUIRES(mu_) { return stored_[stream].size() >= size; });
  return stored_[stream].size();
}

void FakeCoordinator::AwaitUntil(const std::function<bool()>& holds) {
  const absl::Time deadline = Clock::System().Now() + kPatience;
  while (!holds()) {
    const absl::Duration left = deadline - Clock::System().Now();
    if (left <= absl::ZeroDuration()) return;
    changed_.WaitFor(mu_, left);
  }
}

size_t FakeCoordinator::largest_batch() const {
  MutexLock lock(mu_);
  return largest_batch_;
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

absl::StatusOr<v1::AppendLogsResponse> FakeCoordinator::Append(
    const v1::AppendLogsRequest& request) {
  MutexLock lock(mu_);
  absl::Status refused = CheckNetwork().ok() ? logs_ : CheckNetwork();
  if (refused.ok() && !logs_in_turn_.empty()) {
    refused = logs_in_turn_.front();
    logs_in_turn_.pop_front();
  }
  if (!refused.ok()) {
    ++refusals_;
    changed_.NotifyAll();
    return refused;
  }
  largest_batch_ = std::max(largest_batch_, request.ByteSizeLong());
  submitted_at_ = FromProto(request.job_submitted_at());
  told_.insert(told_.end(), request.ranks().begin(), request.ranks().end());
  v1::AppendLogsResponse response;
  for (const v1::LogChunk& chunk : request.chunks()) {
    std::string& stored = stored_[chunk.stream()];
    if (chunk.rank() == 0 && chunk.offset() <= stored.size()) {
      // Like the coordinator, keeps what is stored.
      const std::string bytes = chunk.data() + std::string(chunk.cut_bytes(), '#');
      const size_t known = stored.size() - chunk.offset();
      if (known < bytes.size()) stored += bytes.substr(known);
    }
    if (chunk.cut_bytes() > 0) cut_reasons_.push_back(chunk.cut_reason());
    for (const v1::LogTime& time : chunk.times()) {
      found_at_.insert({{chunk.stream(), time.offset()}, FromProto(time.time())});
    }
    v1::LogPosition* position = response.add_acknowledged();
    position->set_generation(chunk.generation());
    position->set_rank(chunk.rank());
    position->set_stream(chunk.stream());
    position->set_offset(chunk.rank() == 0
                             ? stored.size()
                             : chunk.offset() + chunk.data().size() + chunk.cut_bytes());
  }
  changed_.NotifyAll();
  return response;
}

std::string FakeCoordinator::log(v1::LogStream stream) const {
  MutexLock lock(mu_);
  const auto stored = stored_.find(stream);
  return stored == stored_.end() ? "" : stored->second;
}

void FakeCoordinator::AwaitRefusals(int refusals) {
  MutexLock lock(mu_);
  const int wanted = refusals_ + refusals;
  AwaitUntil([&] { return refusals_ >= wanted; });
}

std::vector<v1::LogCutReason> FakeCoordinator::cut_reasons() const {
  MutexLock lock(mu_);
  return cut_reasons_;
}

absl::Time FakeCoordinator::found_at(v1::LogStream stream, uint64_t offset) const {
  MutexLock lock(mu_);
  const auto found = found_at_.find({stream, offset});
  return found == found_at_.end() ? absl::InfinitePast() : found->second;
}

std::vector<v1::RankOutput> FakeCoordinator::told_of(int rank) const {
  MutexLock lock(mu_);
  std::vector<v1::RankOutput> told;
  for (const v1::RankOutput& each : told_) {
    if (each.rank() == rank) told.push_back(each);
  }
  return told;
}

absl::Time FakeCoordinator::submitted_at() const {
  MutexLock lock(mu_);
  return submitted_at_;
}

}  // namespace dp::worker
