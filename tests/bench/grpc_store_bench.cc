// Batches of 64 operations, half set and half get, on the store of a coordinator in this process,
// through gRPC over loopback. Prints operations per second and batch times as a JSON object.
//
//   grpc_store_bench memory|sqlite SECONDS [CLIENTS]
//
// "memory" keeps the coordinator's journal in memory; "sqlite" keeps it on disk, in the directory
// for temporary files. Each client has one batch outstanding, as the protocol requires.

#include <algorithm>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/testing/scratch_dir.h"
#include "server/driver/testing/memory_journal.h"
#include "server/journal/sqlite_journal.h"
#include "server/rpc/server.h"
#include "server/rpc/testing/cluster_client.h"

namespace dp::bench {
namespace {

constexpr int kOperationsPerBatch = 64;
constexpr size_t kValueBytes = 64;
// Per client; batches take them in turn, and half of a batch's keys are set.
constexpr int kKeysPerClient = 1024;

// A coordinator with one placed job, whose store is used.
class CoordinatorWithJob {
 public:
  static absl::StatusOr<std::unique_ptr<CoordinatorWithJob>> Start(bool on_disk) {
    auto coordinator = std::make_unique<CoordinatorWithJob>();
    if (on_disk) {
      DP_ASSIGN_OR_RETURN(
          coordinator->journal_,
          server::SqliteJournal::Open((coordinator->scratch_.path() / "journal").string()));
    } else {
      coordinator->journal_ = std::make_unique<server::MemoryJournal>();
    }
    DP_ASSIGN_OR_RETURN(coordinator->driver_,
                        server::Driver::Start({.lease = absl::Hours(1)}, *coordinator->journal_,
                                              Clock::System(), [](const absl::Status&) {}));
    DP_ASSIGN_OR_RETURN(
        coordinator->server_,
        server::Server::Start({"127.0.0.1", 0}, *coordinator->driver_, coordinator->logs_));
    return coordinator;
  }

  ~CoordinatorWithJob() {
    if (driver_ != nullptr) driver_->Stop();
    logs_.Stop();
    if (server_ != nullptr) server_->Stop();
  }

  std::string address() const { return server_->address().ToString(); }

 private:
  const ScratchDir scratch_;
  std::unique_ptr<server::Journal> journal_;
  server::LogThread logs_{server::LogStore(scratch_.path()), [](const absl::Status&) {}};
  std::unique_ptr<server::Driver> driver_;
  std::unique_ptr<server::Server> server_;
};

// One client of the store. It sends its next batch when the last one is answered, until the time is
// over. Its callbacks run on gRPC's threads, one at a time.
class BatchClient {
 public:
  BatchClient(const std::string& address, uint64_t job, uint64_t id)
      : stub_(v1::Store::NewStub(Channel(address, id))), id_(id) {
    request_.set_job(job);
    request_.set_generation(1);
    request_.set_client(id);
    for (int i = 0; i < kOperationsPerBatch; ++i) {
      v1::StoreOperation& operation = *request_.add_operations();
      if (i % 2 == 0)
        operation.mutable_set()->set_value(std::string(kValueBytes, 'v'));
      else
        operation.mutable_get();
    }
  }

  void Begin(absl::Time until) {
    until_ = until;
    Send();
  }

  // Returns when the last batch has been answered.
  absl::Status AwaitEnd() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!ended_) end_.Wait(mu_);
    return status_.ok() ? absl::OkStatus() : absl::InternalError(status_.error_message());
  }

  const std::vector<int64_t>& latencies_us() const { return latencies_us_; }

 private:
  // A separate connection; otherwise gRPC would share one among all clients.
  static std::shared_ptr<grpc::Channel> Channel(const std::string& address, uint64_t id) {
    grpc::ChannelArguments arguments;
    arguments.SetInt("dp.client", static_cast<int>(id));
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }

  void Send() {
    request_.set_sequence(++sequence_);
    for (int i = 0; i < kOperationsPerBatch; ++i) {
      v1::StoreOperation& operation = *request_.mutable_operations(i);
      const std::string key = absl::StrCat("bench/", id_, "/", ++key_ % kKeysPerClient);
      (i % 2 == 0 ? *operation.mutable_set()->mutable_key()
                  : *operation.mutable_get()->mutable_key()) = key;
    }
    context_ = std::make_unique<grpc::ClientContext>();
    context_->set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    began_ = absl::Now();
    stub_->async()->Execute(context_.get(), &request_, &response_,
                            [this](grpc::Status status) { OnAnswer(std::move(status)); });
  }

  void OnAnswer(grpc::Status status) {
    const absl::Time now = absl::Now();
    latencies_us_.push_back(absl::ToInt64Microseconds(now - began_));
    if (status.ok() && now < until_) return Send();
    MutexLock lock(mu_);
    status_ = std::move(status);
    ended_ = true;
    end_.NotifyAll();
  }

  const std::unique_ptr<v1::Store::Stub> stub_;
  const uint64_t id_;
  v1::ExecuteRequest request_;
  v1::ExecuteResponse response_;
  std::unique_ptr<grpc::ClientContext> context_;
  absl::Time until_, began_;
  uint64_t sequence_ = 0;
  int key_ = 0;
  std::vector<int64_t> latencies_us_;

  Mutex mu_;
  CondVar end_;
  bool ended_ DP_GUARDED_BY(mu_) = false;
  grpc::Status status_ DP_GUARDED_BY(mu_);
};

absl::StatusOr<uint64_t> SubmitJob(const std::string& address) {
  server::ClusterClient client(address);
  if (!client.Register("w", /*slots=*/1).ok()) return absl::InternalError("no worker registers");
  const auto job = client.Submit(server::ClusterClient::AJob("bench"), "bench");
  if (!job.ok()) return absl::InternalError(job.status.error_message());
  return job->job().id();
}

absl::StatusOr<std::string> Measure(bool on_disk, absl::Duration duration, int count) {
  DP_ASSIGN_OR_RETURN(const auto coordinator, CoordinatorWithJob::Start(on_disk));
  DP_ASSIGN_OR_RETURN(const uint64_t job, SubmitJob(coordinator->address()));
  std::deque<BatchClient> clients;
  for (int i = 1; i <= count; ++i)
    clients.emplace_back(coordinator->address(), job, static_cast<uint64_t>(i));
  const absl::Time began = absl::Now();
  for (BatchClient& client : clients) client.Begin(began + duration);
  for (BatchClient& client : clients) DP_RETURN_IF_ERROR(client.AwaitEnd());
  const double took = absl::ToDoubleSeconds(absl::Now() - began);
  std::vector<int64_t> us;
  for (const BatchClient& client : clients)
    us.insert(us.end(), client.latencies_us().begin(), client.latencies_us().end());
  std::sort(us.begin(), us.end());
  return absl::StrCat("{\"rate\": ", static_cast<double>(us.size()) * kOperationsPerBatch / took,
                      ", \"p50\": ", us[us.size() / 2], ", \"p99\": ", us[us.size() * 99 / 100],
                      "}");
}

}  // namespace
}  // namespace dp::bench

int main(int argc, char** argv) {
  double seconds = 0;
  int clients = 8;
  const std::string journal = argc > 1 ? argv[1] : "";
  if (argc < 3 || (journal != "memory" && journal != "sqlite") ||
      !absl::SimpleAtod(argv[2], &seconds) || (argc > 3 && !absl::SimpleAtoi(argv[3], &clients))) {
    std::fprintf(stderr, "usage: grpc_store_bench memory|sqlite SECONDS [CLIENTS]\n");
    return 2;
  }
  const auto result = dp::bench::Measure(journal == "sqlite", absl::Seconds(seconds), clients);
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", result->c_str());
  return 0;
}
