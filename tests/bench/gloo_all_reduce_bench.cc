// Sums over two processes on this host, by our ordered all-reduce and by Gloo's own ring over the
// same transport, in turns. Prints one JSON object a line. Bandwidths are those of nccl-tests.
// algbw is bytes over time. busbw is algbw x 2 (n - 1) / n, the traffic on the wires of a perfect
// ring.
//
//   all_reduce_bench [ROUNDS]

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "absl/time/clock.h"
#include "base/check.h"
#include "gloo/allreduce.h"
#include "gloo/math.h"
#include "gloo/rendezvous/context.h"
#include "gloo/transport/tcp/device.h"
#include "store/prefix_store.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/testing/shared_memory_store.h"

namespace dp::engine {
namespace {

constexpr int kRanks = 2;
constexpr const char* kLoopback = "127.0.0.1";

// The interface that Gloo's rendezvous needs.
class GlooStore : public gloo::rendezvous::Store {
 public:
  explicit GlooStore(dp::Store& store) : store_(store) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    DP_CHECK(store_.Set(key, {data.data(), data.size()}).ok());
  }
  std::vector<char> get(const std::string& key) override {
    const auto value = store_.Get(key, absl::Minutes(1));
    DP_CHECK(value.ok());
    return {value->begin(), value->end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    DP_CHECK(store_.MultiGet(keys, absl::Minutes(1)).ok());
  }

 private:
  dp::Store& store_;
};

std::shared_ptr<gloo::Context> ConnectPeer(dp::Store& store, int rank) {
  auto device = gloo::transport::tcp::CreateDevice(kLoopback);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, kRanks);
  GlooStore adapter(store);
  context->connectFullMesh(adapter, device);
  return context;
}

double Seconds(int repetitions, const std::function<void()>& all_reduce) {
  const absl::Time begin = absl::Now();
  for (int i = 0; i < repetitions; ++i) all_reduce();
  return absl::ToDoubleSeconds(absl::Now() - begin) / repetitions;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Print(size_t bytes, double ours, double peer) {
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  const double bus = 2.0 * (kRanks - 1) / kRanks;
  const bool mega = bytes >= size_t{1} << 20;
  std::printf(
      "{\"name\":\"all_reduce_%zu_%s\",\"ours\":%.4f,\"peer\":%.4f,\"ratio\":%.3f,"
      "\"unit\":\"GB/s busbw\",\"algbw\":%.4f,\"ours_us\":%.1f,\"peer_us\":%.1f}\n",
      mega ? bytes >> 20 : bytes >> 10, mega ? "MiB" : "KiB", gigabytes / ours * bus,
      gigabytes / peer * bus, peer / ours, gigabytes / ours, ours * 1e6, peer * 1e6);
  std::fflush(stdout);
}

void Measure(Group& group, const std::shared_ptr<gloo::Context>& context, size_t bytes,
             int rounds) {
  std::vector<float> data(bytes / sizeof(float), 1.0f);
  auto ours = [&] { DP_CHECK(group.AllReduce(absl::MakeSpan(data), ReduceOp::kSum)->Wait().ok()); };
  auto peer = [&] {
    gloo::AllreduceOptions options(context);
    options.setOutput(data.data(), data.size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  };
  const int repetitions = static_cast<int>(std::clamp<size_t>((size_t{32} << 20) / bytes, 3, 100));
  Seconds(repetitions / 4 + 1, ours);  // warm up
  Seconds(repetitions / 4 + 1, peer);
  std::vector<double> our_seconds, peer_seconds;
  for (int round = 0; round < rounds; ++round) {
    std::fill(data.begin(), data.end(), 1.0f);
    our_seconds.push_back(Seconds(repetitions, ours));
    std::fill(data.begin(), data.end(), 1.0f);
    peer_seconds.push_back(Seconds(repetitions, peer));
  }
  if (group.rank() == 0) Print(bytes, Median(our_seconds), Median(peer_seconds));
}

void Run(dp::Store& store, int rank, int rounds) {
  PrefixStore our_store("ours/", store), peer_store("peer/", store);
  auto group = ConnectGloo(our_store, rank, kRanks, {.address = kLoopback});
  DP_CHECK(group.ok());
  auto context = ConnectPeer(peer_store, rank);
  for (size_t bytes = size_t{1} << 10; bytes <= size_t{32} << 20; bytes *= 2)
    Measure(**group, context, bytes, rounds);
}

}  // namespace
}  // namespace dp::engine

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  dp::engine::SharedMemoryStore store;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dp::engine::Run(store, 1, rounds);
    _exit(0);
  }
  dp::engine::Run(store, 0, rounds);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}
