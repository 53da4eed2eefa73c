// The service that takes ranks' output.

#include <algorithm>

#include "base/status.h"
#include "proto/convert/time.h"
#include "worker/agent/testing/fake_coordinator.h"

namespace dp::worker {

void FakeCoordinator::RefuseLogs(const absl::Status& status) {
  MutexLock lock(mu_);
  logs_ = status;
}

void FakeCoordinator::RefuseLogsInTurn(const std::vector<absl::Status>& statuses) {
  MutexLock lock(mu_);
  logs_in_turn_.assign(statuses.begin(), statuses.end());
}

void FakeCoordinator::HoldLogs() {
  MutexLock lock(mu_);
  hold_logs_ = true;
}

void FakeCoordinator::HoldReports() {
  MutexLock lock(mu_);
  hold_reports_ = true;
}

void FakeCoordinator::RejectReport() {
  MutexLock lock(mu_);
  reject_report_ = true;
}

void FakeCoordinator::AwaitHeld() {
  MutexLock lock(mu_);
  AwaitUntil([&]() DP_REQUIRES(mu_) { return held_ > 0; });
}

void FakeCoordinator::LetGo() {
  MutexLock lock(mu_);
  hold_logs_ = hold_reports_ = false;
  changed_.NotifyAll();
}

void FakeCoordinator::WaitIfHeld(const bool& hold) {
  ++held_;
  changed_.NotifyAll();
  while (hold && !cancelled_) changed_.Wait(mu_);
  --held_;
}

void FakeCoordinator::AwaitTold(int rank) {
  MutexLock lock(mu_);
  AwaitUntil([&]() DP_REQUIRES(mu_) {
    return std::any_of(told_.begin(), told_.end(),
                       [rank](const v1::RankOutput& told) { return told.rank() == rank; });
  });
}

void FakeCoordinator::LoseLogsBeyond(v1::LogStream stream, size_t size) {
  MutexLock lock(mu_);
  stored_[stream].resize(size);
}

void FakeCoordinator::AwaitRefusals(int refusals) {
  MutexLock lock(mu_);
  const int wanted = refusals_ + refusals;
  AwaitUntil([&] { return refusals_ >= wanted; });
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

std::string FakeCoordinator::log(v1::LogStream stream) const {
  MutexLock lock(mu_);
  const auto stored = stored_.find(stream);
  return stored == stored_.end() ? "" : stored->second;
}

size_t FakeCoordinator::largest_batch() const {
  MutexLock lock(mu_);
  return largest_batch_;
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

absl::Time FakeCoordinator::submitted_at() const {
  MutexLock lock(mu_);
  return submitted_at_;
}

std::vector<v1::RankOutput> FakeCoordinator::told_of(int rank) const {
  MutexLock lock(mu_);
  std::vector<v1::RankOutput> told;
  for (const v1::RankOutput& each : told_) {
    if (each.rank() == rank) told.push_back(each);
  }
  return told;
}

absl::StatusOr<v1::AppendLogsResponse> FakeCoordinator::Append(
    const v1::AppendLogsRequest& request) {
  MutexLock lock(mu_);
  WaitIfHeld(hold_logs_);
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

}  // namespace dp::worker
