#include "tests/bench/scale_clients.h"

#include <atomic>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/status.h"
#include "server/rpc/testing/cluster_client.h"
#include "store/wire/protocol.h"
#include "tests/bench/bench_credentials.h"
#include "tests/bench/scale_call.h"
#include "tests/bench/scale_timer.h"
#include "tests/bench/store_load.h"

namespace dp::bench {
namespace {

constexpr int kSubmitters = 16;  // calls in flight
constexpr int kUsers = 10;
constexpr int kLinesAnAppend = 100;
constexpr absl::Duration kRefusedPause = absl::Milliseconds(100);
constexpr absl::Duration kFollowPoll = absl::Seconds(20);
constexpr absl::Duration kStorePatience = absl::Seconds(60);

double SecondsSince(absl::Time began) { return absl::ToDoubleSeconds(absl::Now() - began); }

// Reads a log from beginning to end, each page as soon as it exists.
class Follower {
 public:
  Follower(v1::Logs::Stub& stub, uint64_t job, Timer& timer, absl::BlockingCounter& ended,
           std::atomic<int>& refused)
      : stub_(stub), timer_(timer), ended_(ended), refused_(refused) {
    request_.set_job(job);
    request_.mutable_timeout()->set_seconds(absl::ToInt64Seconds(kFollowPoll));
  }

  void Read() {
    Call<v1::ReadLogsResponse>(
        request_, kFollowPoll * 2, [this](auto... call) { stub_.async()->Read(call...); },
        [this](const grpc::Status& status, const v1::ReadLogsResponse& response) {
          if (!status.ok()) {
            ++refused_;
            return timer_.After(kRefusedPause, [this] { Read(); });
          }
          if (response.finished()) return void(ended_.DecrementCount());
          *request_.mutable_from() = response.next();
          Read();
        });
  }

 private:
  v1::Logs::Stub& stub_;
  Timer& timer_;
  absl::BlockingCounter& ended_;
  std::atomic<int>& refused_;
  v1::ReadLogsRequest request_;
};

void AppendLines(server::ClusterClient& client, Timer& timer, uint64_t worker, uint64_t job,
                 int lines) {
  uint64_t offset = 0;
  for (int line = 0; line < lines;) {
    std::string text;
    for (int i = 0; i < kLinesAnAppend && line < lines; ++i) {
      absl::StrAppendFormat(&text, "line %08d of a rank that writes what it does\n", line++);
    }
    while (!client.AppendLog(worker, job, offset, text).ok()) {
      timer.WaitUntil(absl::Now() + kRefusedPause);
    }
    offset += text.size();
  }
}

uint16_t StorePortOf(server::ClusterClient& client) {
  const uint64_t worker = client.Register("w", /*slots=*/1)->worker_id();
  v1::JobSpec spec;
  spec.set_name("bench");
  spec.set_ranks(1);
  spec.mutable_command()->add_argv("true");
  spec.mutable_command()->set_working_dir("/");
  spec.mutable_command()->set_store("direct");
  DP_CHECK(client.Submit(spec, "bench").ok());
  v1::WatchAssignmentRequest request;
  request.set_worker_id(worker);
  request.set_incarnation(1);
  const auto assigned = client.Call(client.workers(), &v1::Workers::Stub::WatchAssignment, request);
  if (assigned->assignment().ranks_size() == 0) return 0;
  return static_cast<uint16_t>(assigned->assignment().ranks(0).store_port());
}

// Lists all jobs page by page, like dpctl ps.
int CountJobs(server::ClusterClient& client) {
  v1::ListJobsRequest request;
  for (int jobs = 0;;) {
    const auto page = client.Call(client.jobs(), &v1::Jobs::Stub::List, request);
    DP_CHECK(page.ok() && page->jobs_size() > 0);
    jobs += page->jobs_size();
    if (!page->more()) return jobs;
    request.set_after(page->jobs().rbegin()->id());
  }
}

}  // namespace

std::string Stage(const std::string& name) {
  std::printf("at %s\n", name.c_str());
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
  return line;
}

Figures QueueFigures(const std::string& address, int jobs) {
  server::ClusterClient client(address, CredentialsFor(address).channel());
  absl::BlockingCounter answered(jobs);
  std::atomic<int> next = 0, refused = 0;
  std::function<void()> submit = [&] {
    const int number = next++;
    if (number >= jobs) return;
    v1::SubmitRequest request;
    request.set_request_id(absl::StrCat("bench-", number));
    // One user may not have so many unfinished jobs.
    request.set_user(absl::StrCat("user-", number % kUsers));
    *request.mutable_spec() = server::ClusterClient::AJob(absl::StrCat("job-", number));
    Call<v1::SubmitResponse>(
        request, kStorePatience, [&](auto... call) { client.jobs().async()->Submit(call...); },
        [&](const grpc::Status& status, const v1::SubmitResponse&) {
          refused += !status.ok();
          submit();
          answered.DecrementCount();
        });
  };
  const absl::Time began = absl::Now();
  for (int i = 0; i < kSubmitters; ++i) submit();
  answered.Wait();
  Figures figures = {{"seconds", SecondsSince(began)}, {"refused", refused}};
  const absl::Time asked = absl::Now();
  DP_CHECK(CountJobs(client) == jobs - refused);
  figures.emplace_back("list_ms", SecondsSince(asked) * 1000);
  return figures;
}

Figures FollowFigures(const std::string& address, int followers, int lines) {
  server::ClusterClient client(address, CredentialsFor(address).channel());
  const uint64_t worker = client.Register("w", /*slots=*/1)->worker_id();
  const uint64_t job = client.Submit(server::ClusterClient::AJob("bench"), "bench")->job().id();
  Timer timer;
  absl::BlockingCounter ended(followers);
  std::atomic<int> refused = 0;
  std::vector<std::unique_ptr<server::ClusterClient>> clients;
  std::vector<std::unique_ptr<Follower>> all;
  for (int i = 0; i < followers; ++i) {
    // A real follower is a process of its own, with its own connection.
    clients.push_back(std::make_unique<server::ClusterClient>(address));
    all.push_back(std::make_unique<Follower>(clients.back()->logs(), job, timer, ended, refused));
    all.back()->Read();
  }
  AppendLines(client, timer, worker, job, lines);
  const absl::Time stored = absl::Now();
  for (const auto state :
       {v1::RANK_STATE_STARTED, v1::RANK_STATE_EXITED, v1::RANK_STATE_RELEASED}) {
    DP_CHECK(client.Report(worker, job, 0, state).ok());
  }
  ended.Wait();
  return {{"seconds", SecondsSince(stored)}, {"refused", refused}};
}

absl::StatusOr<Figures> StoreFigures(const std::string& address, int connections) {
  server::ClusterClient client(address, CredentialsFor(address).channel());
  const uint16_t port = StorePortOf(client);
  if (port == 0) return absl::NotFoundError("the coordinator needs --tcpstore-listen");
  Stage("start");
  const absl::Time began = absl::Now();
  DP_ASSIGN_OR_RETURN(const auto load, StoreLoad::Open(port, connections));
  Figures figures = {{"connect_seconds", SecondsSince(began)}};
  Stage("connected");
  std::vector<Exchange> puts(connections, Exchange{.reply_bytes = 1});
  for (int i = 0; i < connections; ++i) {
    const std::string key = absl::StrCat("rank/", i);
    wire::AppendRequest(wire::Dialect::kC, {wire::Verb::kSet, {{key, std::string(64, 'v')}}},
                        &puts[i].request);
    wire::AppendRequest(wire::Dialect::kC, {wire::Verb::kCheck, {{key}}}, &puts[i].request);
  }
  std::vector<bool> put(connections);
  const absl::Time puts_began = absl::Now();
  DP_RETURN_IF_ERROR(load->Run(
      [&](size_t index) {
        const bool first = !put[index];
        put[index] = true;
        return first ? &puts[index] : nullptr;
      },
      kStorePatience));
  figures.emplace_back("put_seconds", SecondsSince(puts_began));
  return figures;
}

}  // namespace dp::bench
