// Pushes and pulls of parameters through a coordinator in this process, over loopback. The same run
// streams the same bytes through a plain gRPC service, and copies them in memory. Each row is a
// JSON object of bytes per second and, where the coordinator is loaded, the latency of heartbeats.
//
//   parameters_bench [MIB] [ROUNDS]

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/checksum/crc32c.h"
#include "base/limits.h"
#include "base/testing/scratch_dir.h"
#include "client/parameters.h"
#include "dp/v1/parameters.grpc.pb.h"
#include "server/driver/testing/memory_journal.h"
#include "server/rpc/server.h"
#include "server/rpc/testing/cluster_client.h"

namespace dp::bench {
namespace {

constexpr int kClients[] = {1, 4, 16};

// Takes and gives chunks without looking at them: the cost of gRPC alone.
class PlainStreams final : public v1::Parameters::Service {
 public:
  explicit PlainStreams(size_t bytes) : bytes_(bytes) {}

 private:
  grpc::Status Push(grpc::ServerContext*, grpc::ServerReader<v1::PushParametersRequest>* reader,
                    v1::PushParametersResponse*) override {
    v1::PushParametersRequest message;
    while (reader->Read(&message)) {
    }
    return grpc::Status::OK;
  }
  grpc::Status Pull(grpc::ServerContext*, const v1::PullParametersRequest*,
                    grpc::ServerWriter<v1::PullParametersResponse>* writer) override {
    v1::PullParametersResponse message;
    message.mutable_version()->set_bytes(bytes_);
    for (size_t at = 0; at < bytes_; at += kParameterChunkBytes) {
      message.set_data(std::string(std::min(kParameterChunkBytes, bytes_ - at), 'x'));
      if (!writer->Write(message)) break;
      message.Clear();
    }
    return grpc::Status::OK;
  }

  const size_t bytes_;
};

class Coordinator {
 public:
  Coordinator() {
    driver_ = *server::Driver::Start({.lease = absl::Hours(1)}, journal_, Clock::System(),
                                     [](const absl::Status&) {});
    server_ =
        *server::Server::Start({"127.0.0.1", 0}, *driver_, logs_, {.parameters = &parameters_});
  }
  ~Coordinator() {
    driver_->Stop();
    logs_.Stop();
    parameters_.tables.Stop();
    server_->Stop();
  }
  std::string address() const { return server_->address().ToString(); }

 private:
  const ScratchDir scratch_;
  server::MemoryJournal journal_;
  server::LogThread logs_{server::LogStore(scratch_.path() / "logs"), [](const absl::Status&) {}};
  server::Parameters parameters_{scratch_.path() / "parameters"};
  std::unique_ptr<server::Driver> driver_;
  std::unique_ptr<server::Server> server_;
};

// Runs `work(client)` on so many threads; returns the seconds until all are done.
double Timed(int clients, const std::function<void(int)>& work) {
  const absl::Time began = absl::Now();
  std::vector<std::jthread> threads;
  for (int i = 0; i < clients; ++i) threads.emplace_back([&work, i] { work(i); });
  threads.clear();
  return absl::ToDoubleSeconds(absl::Now() - began);
}

// Sends heartbeats until stopped, and keeps how long each took.
class Heartbeats {
 public:
  explicit Heartbeats(const std::string& address)
      : client_(address), thread_([this](const std::stop_token& stop) { Run(stop); }) {}
  // In milliseconds: the median and the 99th percentile.
  std::pair<double, double> Stop() {
    thread_.request_stop();
    thread_.join();
    std::sort(ms_.begin(), ms_.end());
    return {ms_[ms_.size() / 2], ms_[ms_.size() * 99 / 100]};
  }

 private:
  void Run(const std::stop_token& stop) {
    const auto worker = client_.Register("w", /*slots=*/1);
    while (!stop.stop_requested()) {
      v1::HeartbeatRequest request;
      request.set_worker_id(worker->worker_id());
      request.set_incarnation(1);
      const absl::Time began = absl::Now();
      (void)client_.Call(client_.workers(), &v1::Workers::Stub::Heartbeat, request);
      ms_.push_back(absl::ToDoubleMilliseconds(absl::Now() - began));
    }
  }

  server::ClusterClient client_;
  std::vector<double> ms_;
  std::jthread thread_;
};

void Report(const std::string& name, double value, const std::string& unit) {
  std::printf("{\"name\": \"%s\", \"value\": %.3f, \"unit\": \"%s\"}\n", name.c_str(), value,
              unit.c_str());
  std::fflush(stdout);
}

void ReportRate(const std::string& name, int clients, double bytes, double seconds) {
  Report(absl::StrCat("parameters_", name, "_", clients), bytes / seconds / 1e9, "GB/s");
}

struct Load {
  std::string data;
  int rounds = 1;

  double bytes(int clients) const {
    return static_cast<double>(data.size()) * static_cast<double>(rounds) * clients;
  }
};

// Pushes and pulls of all clients; each has a set and a connection of its own.
void Measure(const std::string& name, const std::string& address, const Load& load, int clients) {
  std::vector<std::unique_ptr<client::Connection>> connections;
  for (int i = 0; i < clients; ++i) {
    connections.push_back(
        std::make_unique<client::Connection>(address, client::Credentials::Insecure()));
  }
  client::Pause pause;
  std::atomic<int> failed = 0;
  const std::vector<client::TensorView> tensors = {
      {"w", "U8", {static_cast<int64_t>(load.data.size())}, load.data}};
  const auto push = [&](int i) {
    client::Parameters parameters(*connections[static_cast<size_t>(i)], pause);
    const client::ParameterSet set = {.name = absl::StrCat("set-", clients, "-", i)};
    for (int round = 0; round < load.rounds; ++round) failed += !parameters.Push(set, tensors).ok();
  };
  // Without the client's own check, which plain streams do not have.
  const auto pull = [&](int i) {
    for (int round = 0; round < load.rounds; ++round) {
      v1::PullParametersRequest request;
      request.set_name(absl::StrCat("set-", clients, "-", i));
      const absl::Status pulled =
          connections[static_cast<size_t>(i)]
              ->Download<v1::Parameters::Stub, v1::PullParametersRequest,
                         v1::PullParametersResponse>(
                  &v1::Parameters::Stub::Pull, request,
                  [](v1::PullParametersResponse&) { return absl::OkStatus(); }, absl::Minutes(5));
      failed += !pulled.ok();
    }
  };
  ReportRate(name + "push", clients, load.bytes(clients), Timed(clients, push));
  ReportRate(name + "pull", clients, load.bytes(clients), Timed(clients, pull));
  if (failed > 0) std::fprintf(stderr, "%s: %d calls have failed\n", name.c_str(), failed.load());
}

void MeasureMemory(const Load& load, int clients) {
  const auto copy = [&load](int) {
    std::string to(load.data.size(), '\0');
    for (int round = 0; round < load.rounds; ++round) {
      std::memcpy(to.data(), load.data.data(), to.size());
    }
  };
  std::atomic<uint32_t> sum = 0;
  const auto check = [&](int) {
    for (int round = 0; round < load.rounds; ++round) sum += ExtendCrc32c(0, load.data);
  };
  ReportRate("memcpy", clients, load.bytes(clients), Timed(clients, copy));
  ReportRate("crc32c", clients, load.bytes(clients), Timed(clients, check));
}

void Run(const Load& load) {
  for (const int clients : kClients) MeasureMemory(load, clients);
  {
    PlainStreams plain(load.data.size());
    grpc::ServerBuilder builder;
    int port = 0;
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&plain);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    for (const int clients : kClients) {
      Measure("grpc_", absl::StrCat("127.0.0.1:", port), load, clients);
    }
  }
  Coordinator coordinator;
  Heartbeats idle(coordinator.address());
  absl::Time until = absl::Now() + absl::Seconds(2);
  while (absl::Now() < until) (void)ExtendCrc32c(0, load.data);  // a processor as busy as a client
  const auto [idle_p50, idle_p99] = idle.Stop();
  Report("parameters_heartbeat_p50_before", idle_p50, "ms");
  Report("parameters_heartbeat_p99_before", idle_p99, "ms");
  for (const int clients : kClients) {
    Heartbeats loaded(coordinator.address());
    Measure("", coordinator.address(), load, clients);
    const auto [p50, p99] = loaded.Stop();
    Report(absl::StrCat("parameters_heartbeat_p50_", clients), p50, "ms");
    Report(absl::StrCat("parameters_heartbeat_p99_", clients), p99, "ms");
  }
}

}  // namespace
}  // namespace dp::bench

int main(int argc, char** argv) {
  int mib = 64, rounds = 4;
  if ((argc > 1 && !absl::SimpleAtoi(argv[1], &mib)) ||
      (argc > 2 && !absl::SimpleAtoi(argv[2], &rounds)) || mib < 1 || rounds < 1) {
    std::fprintf(stderr, "usage: parameters_bench [MIB] [ROUNDS]\n");
    return 2;
  }
  dp::bench::Run({std::string(static_cast<size_t>(mib) << 20, 'x'), rounds});
  return 0;
}
