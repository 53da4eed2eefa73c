// Durable puts by a rank of an unmodified PyTorch program: over TCPStore's protocol, in the store
// of a job that the coordinator itself serves. Prints a JSON object.
//
//   tcpstore_put_bench ADDRESS CONNECTIONS SECONDS
//
// ADDRESS is the coordinator's. The coordinator needs --tcpstore-listen on 127.0.0.1, and --lease
// 1h, because no daemon keeps the job's worker alive. Each connection is a separate client. A
// client sends a set, which the protocol does not answer, and in the same segment a check of the
// key. The check's answer means that the coordinator has the value on its disk; then the client
// sends the next pair. Sizes and keys are put_bench's.

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "server/rpc/testing/cluster_client.h"
#include "store/wire/protocol.h"
#include "tests/bench/bench_credentials.h"
#include "tests/bench/store_load.h"

namespace dp::bench {
namespace {

constexpr size_t kValueBytes = 256;
constexpr size_t kKeys = 10'000;
constexpr absl::Duration kPatience = absl::Seconds(30);

// The store port of the benchmark's job. The first caller creates the job.
absl::StatusOr<uint16_t> StorePort(const std::string& address) {
  server::ClusterClient client(address, CredentialsFor(address).channel());
  const auto worker = client.Register("w", /*slots=*/2);  // idempotent
  v1::JobSpec spec;
  spec.set_name("bench-tcpstore");
  spec.set_ranks(1);
  spec.mutable_command()->add_argv("true");
  spec.mutable_command()->set_working_dir("/");
  spec.mutable_command()->set_store("direct");
  const auto job = client.Submit(spec, spec.name());
  if (!job.ok()) return absl::UnavailableError(job.status.error_message());
  v1::WatchAssignmentRequest request;
  request.set_worker_id(worker->worker_id());
  request.set_incarnation(1);
  const auto assigned = client.Call(client.workers(), &v1::Workers::Stub::WatchAssignment, request);
  for (const v1::AssignedRank& rank : assigned->assignment().ranks()) {
    if (rank.job() == job->job().id()) return static_cast<uint16_t>(rank.store_port());
  }
  return absl::NotFoundError("the coordinator gave the job no store; it needs --tcpstore-listen");
}

std::vector<Exchange> Puts() {
  const std::string value(kValueBytes, 'v');
  std::vector<Exchange> puts(kKeys, Exchange{.reply_bytes = 1});
  for (size_t i = 0; i < kKeys; ++i) {
    const std::string key = absl::StrFormat("bench/%08d", i);
    wire::AppendRequest(wire::Dialect::kC, {wire::Verb::kSet, {{key, value}}}, &puts[i].request);
    wire::AppendRequest(wire::Dialect::kC, {wire::Verb::kCheck, {{key}}}, &puts[i].request);
  }
  return puts;
}

absl::StatusOr<std::string> Measure(uint16_t port, size_t connections, absl::Duration duration) {
  DP_ASSIGN_OR_RETURN(auto load, StoreLoad::Open(port, connections));
  const std::vector<Exchange> puts = Puts();
  size_t put = 0;
  const absl::Time began = absl::Now();
  const auto next = [&](size_t) {
    return absl::Now() < began + duration ? &puts[put++ % kKeys] : nullptr;
  };
  DP_RETURN_IF_ERROR(load->Run(next, kPatience));
  const double took = absl::ToDoubleSeconds(absl::Now() - began);
  std::vector<int64_t> ns = load->latencies_ns();
  std::sort(ns.begin(), ns.end());
  return absl::StrFormat("{\"rate\": %.1f, \"p50\": %d, \"p99\": %d}", ns.size() / took,
                         ns[ns.size() / 2] / 1000, ns[ns.size() * 99 / 100] / 1000);
}

absl::StatusOr<std::string> Main(const std::vector<std::string>& words) {
  int connections = 0;
  double seconds = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[1], &connections) || connections < 1 ||
      !absl::SimpleAtod(words[2], &seconds)) {
    return absl::InvalidArgumentError("usage: tcpstore_put_bench ADDRESS CONNECTIONS SECONDS");
  }
  DP_ASSIGN_OR_RETURN(const uint16_t port, StorePort(words[0]));
  return Measure(port, static_cast<size_t>(connections), absl::Seconds(seconds));
}

}  // namespace
}  // namespace dp::bench

int main(int argc, char** argv) {
  const auto result = dp::bench::Main({argv + 1, argv + argc});
  if (!result.ok()) {
    std::fprintf(stderr, "tcpstore_put_bench: %s\n", result.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", result->c_str());
  return 0;
}
