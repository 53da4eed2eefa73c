// Durable puts of one key each over gRPC, in the store of a dp-coordinator's job or in etcd. Only
// the messages differ; the client code is the same. Prints JSON objects.
//
//    put_bench dp|etcd ADDRESS rate OUTSTANDING CONNECTIONS SECONDS [GROUP [VALUE_BYTES]]
//    put_bench dp ADDRESS gets OUTSTANDING CONNECTIONS SECONDS [GROUP [VALUE_BYTES]]
//    put_bench dp|etcd ADDRESS fill KEYS
//    put_bench dp ADDRESS history JOBS     jobs of two ranks that have ended
//    put_bench dp|etcd ADDRESS first       a line of input; then puts once and prints the time
//
// Each outstanding put is a separate client: it sends the next put when the last one is answered.
// With GROUP (dp only) a client acts as a daemon's relay. The relay sends the puts of GROUP ranks
// in one call; each put is a group that is applied and answered separately. The coordinator needs
// --lease 1h, because no daemon keeps the job's worker alive.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/mutex.h"
#include "client/connection.h"
#include "client/credentials.h"
#include "etcd_kv.grpc.pb.h"
#include "server/rpc/testing/cluster_client.h"
#include "tests/bench/bench_credentials.h"

namespace dp::bench {
namespace {

constexpr size_t kValueBytes = 256;
constexpr uint64_t kKeys = 10'000;
// All keys of a run with larger values hold at most so much together.
constexpr uint64_t kHeldBytesMax = uint64_t{64} << 20;
constexpr int kFillers = 256;
constexpr int kFillConnections = 16;

std::string KeyOf(uint64_t number) { return absl::StrFormat("bench/%08d", number); }

// The job whose store is used. The first caller creates it.
uint64_t BenchJob(const std::string& address) {
  server::ClusterClient client(address, CredentialsFor(address).channel());
  (void)client.Register("w", /*slots=*/2);  // idempotent
  const auto job = client.Submit(server::ClusterClient::AJob("bench"), "bench");
  DP_CHECK(job.ok());
  return job->job().id();
}

// The work of the clients: when they stop, and the next key.
struct Plan {
  absl::Time until = absl::InfiniteFuture();
  uint64_t puts_max = ~uint64_t{0};
  uint64_t keys = kKeys;
  int group = 1;  // puts in a request
  size_t value_bytes = kValueBytes;
  bool gets = false;  // reads the keys instead
  std::atomic<uint64_t> put = 0;
};

class DpPuts {
 public:
  using Request = v1::ExecuteRequest;
  using Response = v1::ExecuteResponse;
  using Stub = v1::Store::Stub;

  DpPuts(const std::string& address, const Plan& plan)
      : job_(BenchJob(address)), plan_(plan), first_client_(absl::ToUnixNanos(absl::Now())) {}

  // Each has a connection of its own.
  static std::unique_ptr<Stub> NewStub(const std::string& address) {
    return v1::Store::NewStub(client::MakeChannel(address, CredentialsFor(address)));
  }
  void Init(uint64_t client, Request* request) const {
    request->set_job(job_);
    request->set_generation(1);
    request->set_client(first_client_ + client);  // runs must not share client ids
    for (int i = 0; i < plan_.group; ++i) {
      v1::StoreOperation& operation = *request->add_operations();
      if (plan_.gets)
        operation.mutable_get();
      else
        operation.mutable_set()->set_value(std::string(plan_.value_bytes, 'v'));
      if (plan_.group > 1) request->add_groups(1);
    }
  }
  // Sets the keys for put number `first` and the puts after it.
  static void Next(uint64_t first, uint64_t keys, Request* request) {
    request->set_sequence(request->sequence() + 1);
    for (v1::StoreOperation& operation : *request->mutable_operations()) {
      *(operation.has_get() ? operation.mutable_get()->mutable_key()
                            : operation.mutable_set()->mutable_key()) = KeyOf(first++ % keys);
    }
  }
  static void Send(Stub& stub, grpc::ClientContext* context, const Request* request,
                   Response* response, std::function<void(grpc::Status)> done) {
    stub.async()->Execute(context, request, response, std::move(done));
  }

 private:
  const uint64_t job_;
  const Plan& plan_;
  const uint64_t first_client_;
};

class EtcdPuts {
 public:
  using Request = etcdserverpb::PutRequest;
  using Response = etcdserverpb::PutResponse;
  using Stub = etcdserverpb::KV::Stub;

  EtcdPuts(const std::string&, const Plan&) {}

  static std::unique_ptr<Stub> NewStub(const std::string& address) {
    return etcdserverpb::KV::NewStub(client::MakeChannel(address, client::Credentials::Insecure()));
  }
  static void Init(uint64_t, Request* request) {
    request->set_value(std::string(kValueBytes, 'v'));
  }
  static void Next(uint64_t first, uint64_t keys, Request* request) {
    request->set_key(KeyOf(first % keys));
  }
  static void Send(Stub& stub, grpc::ClientContext* context, const Request* request,
                   Response* response, std::function<void(grpc::Status)> done) {
    stub.async()->Put(context, request, response, std::move(done));
  }
};

template <typename Puts>
class Client {
 public:
  Client(const Puts& puts, typename Puts::Stub& stub, uint64_t number, Plan& plan)
      : stub_(stub), plan_(plan) {
    puts.Init(number, &request_);
  }

  // Returns false once the plan is fulfilled.
  bool Send() {
    const uint64_t put = plan_.put.fetch_add(plan_.group);
    began_ = absl::Now();
    if (put >= plan_.puts_max || began_ >= plan_.until) return End(grpc::Status::OK);
    Puts::Next(put, plan_.keys, &request_);
    context_.emplace();
    Puts::Send(stub_, &*context_, &request_, &response_,
               [this](grpc::Status status) { OnAnswer(std::move(status)); });
    return true;
  }
  grpc::Status AwaitEnd() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!ended_) end_.Wait(mu_);
    return status_;
  }
  const std::vector<int64_t>& latencies_us() const { return latencies_us_; }

 private:
  void OnAnswer(grpc::Status status) {
    latencies_us_.push_back(absl::ToInt64Microseconds(absl::Now() - began_));
    if (!status.ok()) {
      End(status);
    } else {
      Send();
    }
  }
  bool End(const grpc::Status& status) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    status_ = status;
    ended_ = true;
    end_.NotifyAll();
    return false;
  }

  typename Puts::Stub& stub_;
  Plan& plan_;
  typename Puts::Request request_;
  typename Puts::Response response_;
  std::optional<grpc::ClientContext> context_;
  absl::Time began_;
  std::vector<int64_t> latencies_us_;
  Mutex mu_;
  CondVar end_;
  bool ended_ DP_GUARDED_BY(mu_) = false;
  grpc::Status status_ DP_GUARDED_BY(mu_);
};

template <typename Puts>
int Run(const std::string& address, int outstanding, int connections, Plan& plan) {
  const Puts puts(address, plan);
  std::vector<std::unique_ptr<typename Puts::Stub>> stubs;
  for (int i = 0; i < connections; ++i) stubs.push_back(Puts::NewStub(address));
  std::deque<Client<Puts>> clients;
  for (int i = 0; i < outstanding; ++i) {
    clients.emplace_back(puts, *stubs[i % connections], static_cast<uint64_t>(i), plan);
  }
  const absl::Time began = absl::Now();
  for (Client<Puts>& client : clients) (void)client.Send();
  std::vector<int64_t> us;
  for (Client<Puts>& client : clients) {
    const grpc::Status status = client.AwaitEnd();
    if (!status.ok()) {
      std::fprintf(stderr, "put_bench: %s\n", status.error_message().c_str());
      return 1;
    }
    us.insert(us.end(), client.latencies_us().begin(), client.latencies_us().end());
  }
  const double took = absl::ToDoubleSeconds(absl::Now() - began);
  std::sort(us.begin(), us.end());
  absl::PrintF("{\"rate\": %.1f, \"p50\": %d, \"p99\": %d}\n", us.size() * plan.group / took,
               us[us.size() / 2], us[us.size() * 99 / 100]);
  return 0;
}

template <typename Puts>
int First(const std::string& address) {
  std::string line;
  std::getline(std::cin, line);
  Plan plan{.puts_max = 1};
  const Puts puts(address, plan);
  const auto stub = Puts::NewStub(address);
  Client<Puts> client(puts, *stub, 1, plan);
  (void)client.Send();
  const grpc::Status status = client.AwaitEnd();
  if (!status.ok()) std::fprintf(stderr, "put_bench: %s\n", status.error_message().c_str());
  absl::PrintF("%d\n", absl::ToUnixNanos(absl::Now()));
  return status.ok() ? 0 : 1;
}

int MakeHistory(const std::string& address, int jobs) {
  server::ClusterClient client(address, CredentialsFor(address).channel());
  const uint64_t worker = client.Register("w", /*slots=*/2)->worker_id();
  for (int i = 0; i < jobs; ++i) {
    const std::string name = absl::StrCat("job-", i);
    const uint64_t job = client.Submit(server::ClusterClient::AJob(name, 2), name)->job().id();
    for (const auto state :
         {v1::RANK_STATE_STARTED, v1::RANK_STATE_EXITED, v1::RANK_STATE_RELEASED}) {
      for (const int rank : {0, 1}) {
        if (!client.Report(worker, job, rank, state).ok()) return 1;
      }
    }
  }
  return 0;
}

template <typename Puts>
int Main(const std::string& address, const std::vector<std::string>& words) {
  const auto number = [&words](size_t at) {
    int value = 0;
    return at < words.size() && absl::SimpleAtoi(words[at], &value) ? value : 0;
  };
  const std::string verb = words.empty() ? "" : words[0];
  if ((verb == "rate" || verb == "gets") && number(1) > 0 && number(2) > 0 && number(3) > 0) {
    Plan plan{.group = std::max(1, number(4)), .gets = verb == "gets"};
    if (number(5) > 0) plan.value_bytes = static_cast<size_t>(number(5));
    plan.keys = std::clamp<uint64_t>(kHeldBytesMax / plan.value_bytes, 1, kKeys);
    const int clients = std::max(1, number(1) / plan.group);
    if (plan.gets) {
      Plan puts{.puts_max = plan.keys, .keys = plan.keys, .value_bytes = plan.value_bytes};
      if (const int failed = Run<Puts>(address, clients, number(2), puts)) return failed;
    }
    plan.until = absl::Now() + absl::Seconds(number(3));
    return Run<Puts>(address, clients, number(2), plan);
  }
  if (verb == "fill" && number(1) > 0) {
    const auto keys = static_cast<uint64_t>(number(1));
    Plan plan{.puts_max = keys, .keys = keys};
    return Run<Puts>(address, kFillers, kFillConnections, plan);
  }
  if (verb == "history") return MakeHistory(address, number(1));
  if (verb == "first") return First<Puts>(address);
  std::fprintf(stderr, "usage: put_bench dp|etcd ADDRESS rate|gets|fill|history|first ...\n");
  return 2;
}

}  // namespace
}  // namespace dp::bench

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string server = argc > 2 ? arguments[0] : "";
  const std::string address = argc > 2 ? arguments[1] : "";
  const std::vector<std::string> words(arguments.begin() + std::min<size_t>(2, arguments.size()),
                                       arguments.end());
  if (server == "dp") return dp::bench::Main<dp::bench::DpPuts>(address, words);
  return dp::bench::Main<dp::bench::EtcdPuts>(address, words);
}
