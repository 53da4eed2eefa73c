#include "worker/agent/reporter.h"

#include <pthread.h>

#include "base/check.h"
#include "dp/v1/workers.grpc.pb.h"

namespace dp::worker {
namespace {

constexpr absl::Duration kReportDeadline = absl::Seconds(5);

}  // namespace

ReportTurn::ReportTurn(uint64_t seed) : backoff_(BackoffOptions{.max = absl::Seconds(1)}, seed) {}

bool ReportTurn::Done(const absl::Status& answer, absl::Time now) {
  under_way_ = false;
  if (answer.ok()) trouble_.Worked();
  if (!answer.ok()) trouble_.Failed(answer);
  // A rejected report will be rejected again. Either the job is over, or the lease is lost, which
  // the heartbeat detects.
  if (answer.ok() || IsRefusal(answer)) {
    backoff_.Reset();
    again_at_ = absl::InfinitePast();
    return true;
  }
  again_at_ = now + backoff_.Next();
  return false;
}

Reporter::Reporter(client::Connection& connection, Mailbox& mailbox)
    : connection_(connection), mailbox_(mailbox) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "reporter");
}

Reporter::~Reporter() { orders_.Close(); }

void Reporter::Send(std::variant<Report, SlotsReport> report) {
  const bool taken = orders_.TryPush(report);
  DP_CHECK(taken || orders_.closed());
}

void Reporter::Loop() {
  while (!orders_.closed()) {
    for (const auto& report : orders_.DrainFor(absl::InfiniteDuration())) {
      std::visit([this](const auto& each) { Carry(each); }, report);
    }
  }
}

void Reporter::Carry(const Report& report) {
  v1::ReportRankRequest request = report.request;
  if (report.lacks_torch) request.add_last_lines(WhyNoTorch(PathOf(*report.lacks_torch)));
  const auto response = connection_.Call(&v1::Workers::Stub::ReportRank, request, kReportDeadline);
  mailbox_.Tell(ReportAnswered{report.key, report.process, report.milestone, response.status()});
}

void Reporter::Carry(const SlotsReport& report) {
  mailbox_.Tell(SlotsAnswered{
      connection_.Call(&v1::Workers::Stub::ReportSlots, report.request, kReportDeadline).status()});
}

}  // namespace dp::worker
