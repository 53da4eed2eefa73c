#include "tests/bench/scale_fleet.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "client/connection.h"
#include "proto/convert/time.h"
#include "tests/bench/scale_call.h"

namespace dp::bench {
namespace {

// The same as in worker/agent/lease.cc.
constexpr absl::Duration kLeaseDeadline = absl::Seconds(5);
constexpr int kBeatsPerLease = 4;

constexpr absl::Duration kAssignmentWatch = absl::Seconds(55);
constexpr absl::Duration kReportDeadline = absl::Seconds(10);
constexpr absl::Duration kPause = absl::Milliseconds(200);
constexpr size_t kThreads = 4;

}  // namespace

Host::Host(Fleet& fleet, int number)
    : fleet_(fleet),
      number_(number),
      incarnation_(static_cast<uint64_t>(absl::ToUnixNanos(absl::Now())) + number),
      backoff_(BackoffOptions{.max = absl::Seconds(1)}, number) {
  workers_ = v1::Workers::NewStub(client::MakeChannel(fleet.address(), fleet.credentials()));
}

void Host::Register() {
  v1::RegisterRequest request;
  request.set_name(absl::StrCat("node", number_));
  request.set_host(request.name());
  request.set_address(absl::StrCat("10.0.", number_ / 250, ".", 1 + number_ % 250));
  request.set_incarnation(incarnation_);
  request.set_slots(fleet_.slots());
  Call<v1::RegisterResponse>(
      request, kLeaseDeadline, [this](auto... call) { workers_->async()->Register(call...); },
      [this](const grpc::Status& status, const v1::RegisterResponse& response) {
        if (status.ok()) return TakeRegistration(response);
        fleet_.timer().After(backoff_.Next(), [this] { Register(); });
      });
}

void Host::TakeRegistration(const v1::RegisterResponse& response) {
  backoff_.Reset();
  worker_id_ = response.worker_id();
  epoch_ = response.header().epoch();
  lease_number_ = 0;
  between_beats_ = FromProto(response.lease()) / kBeatsPerLease;
  fleet_.NoteRegistered(epoch_);
  // Spreads the first heartbeats, like those of daemons that were started one after another.
  BeatAt(absl::Now() + between_beats_ * (number_ % 97) / 97);
}

void Host::BeatAt(absl::Time when) {
  fleet_.NoteDue(when);
  fleet_.timer().At(when, [this, when] { Beat(when); });
}

void Host::Beat(absl::Time due) {
  v1::HeartbeatRequest request;
  request.set_worker_id(worker_id_);
  request.set_incarnation(incarnation_);
  request.set_lease_number(lease_number_);
  Call<v1::HeartbeatResponse>(
      request, between_beats_, [this](auto... call) { workers_->async()->Heartbeat(call...); },
      [this, due](const grpc::Status& status, const v1::HeartbeatResponse& response) {
        TakeBeat(due, status, response);
      });
}

void Host::TakeBeat(absl::Time due, const grpc::Status& status,
                    const v1::HeartbeatResponse& response) {
  const absl::Time now = absl::Now();
  fleet_.NoteBeat(due, now - due);
  const bool lost = status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ||
                    status.error_code() == grpc::StatusCode::NOT_FOUND;
  if (lost) return fleet_.NoteRefused();
  if (!status.ok()) return BeatAt(now + std::min(backoff_.Next(), between_beats_));
  backoff_.Reset();
  if (response.header().epoch() != epoch_) return Register();
  if (response.lease_number() > lease_number_) {
    lease_number_ = response.lease_number();
    between_beats_ = FromProto(response.lease()) / kBeatsPerLease;
  }
  BeatAt(now + between_beats_);
}

void Host::WatchFor(int ranks) {
  v1::WatchAssignmentRequest request;
  request.set_worker_id(worker_id_);
  request.set_incarnation(incarnation_);
  request.set_since(assignment_.version());
  *request.mutable_timeout() = ToProto(kAssignmentWatch);
  Call<v1::WatchAssignmentResponse>(
      request, kAssignmentWatch * 2,
      [this](auto... call) { workers_->async()->WatchAssignment(call...); },
      [this, ranks](const grpc::Status& status, const v1::WatchAssignmentResponse& response) {
        if (!status.ok()) return fleet_.timer().After(kPause, [this, ranks] { WatchFor(ranks); });
        assignment_ = response.assignment();
        if (assignment_.ranks_size() == ranks && !std::exchange(assigned_, true)) {
          fleet_.NoteAssigned();
        }
        WatchFor(ranks);
      });
}

void Host::ReportStarted(std::function<void()> reported) {
  for (const v1::AssignedRank& rank : assignment_.ranks()) {
    v1::ReportRankRequest report;
    report.set_worker_id(worker_id_);
    report.set_incarnation(incarnation_);
    report.set_job(rank.job());
    report.set_generation(rank.generation());
    report.set_rank(rank.rank());
    report.set_state(v1::RANK_STATE_STARTED);
    report.set_pid(1000 + rank.rank());
    Report(report, reported);
  }
}

void Host::Report(const v1::ReportRankRequest& report, std::function<void()> reported) {
  Call<v1::ReportRankResponse>(
      report, kReportDeadline, [this](auto... call) { workers_->async()->ReportRank(call...); },
      [this, report, reported](const grpc::Status& status, const v1::ReportRankResponse&) {
        if (status.ok()) return reported();
        fleet_.timer().After(kPause, [this, report, reported] { Report(report, reported); });
      });
}

Fleet::Fleet(std::string address, int hosts, int slots)
    : address_(std::move(address)), slots_(slots) {
  for (int number = 0; number < hosts; ++number) {
    hosts_.push_back(std::make_unique<Host>(*this, number));
  }
}

void Fleet::Register() {
  {
    MutexLock lock(mu_);
    registered_ = 0;
  }
  // Each host loads its own certificate, on a processor of its own. On one thread here, that alone
  // would take seconds.
  std::vector<std::thread> threads;
  for (size_t first = 0; first < kThreads; ++first) {
    threads.emplace_back([this, first] {
      for (size_t i = first; i < hosts_.size(); i += kThreads) hosts_[i]->Register();
    });
  }
  for (std::thread& thread : threads) thread.join();
  AwaitRegistered(1);
}

void Fleet::AwaitRegistered(uint64_t epoch) {
  MutexLock lock(mu_);
  while (epoch_ < epoch || registered_ < hosts_.size()) changed_.Wait(mu_);
}

void Fleet::AwaitAssigned(int ranks_each) {
  for (const auto& host : hosts_) host->WatchFor(ranks_each);
  MutexLock lock(mu_);
  while (assigned_ < hosts_.size()) changed_.Wait(mu_);
}

void Fleet::ReportStarted() {
  absl::BlockingCounter open(static_cast<int>(hosts_.size()) * slots_);
  for (const auto& host : hosts_) host->ReportStarted([&open] { open.DecrementCount(); });
  open.Wait();
}

std::vector<absl::Duration> Fleet::BeatsDue(absl::Time begin, absl::Time end) {
  MutexLock lock(mu_);
  while (!open_beats_.empty() && *open_beats_.begin() <= end) changed_.Wait(mu_);
  std::vector<absl::Duration> beats;
  for (const auto& [due, took] : beats_) {
    if (begin <= due && due <= end) beats.push_back(took);
  }
  std::sort(beats.begin(), beats.end());
  return beats;
}

void Fleet::NoteDue(absl::Time due) {
  MutexLock lock(mu_);
  open_beats_.insert(due);
}

void Fleet::NoteBeat(absl::Time due, absl::Duration took) {
  MutexLock lock(mu_);
  open_beats_.erase(open_beats_.find(due));
  beats_.emplace_back(due, took);
  changed_.NotifyAll();
}

void Fleet::NoteRegistered(uint64_t epoch) {
  MutexLock lock(mu_);
  if (epoch > epoch_) registered_ = 0;
  epoch_ = std::max(epoch_, epoch);
  ++registered_;
  changed_.NotifyAll();
}

void Fleet::NoteAssigned() {
  MutexLock lock(mu_);
  ++assigned_;
  changed_.NotifyAll();
}

}  // namespace dp::bench
