// Sums over the processes of this host: through shared memory, by Gloo over loopback, and beside
// these a copy of the same bytes. "heap" sums memory that the group has allocated, "shm" any other.
// No sum is faster than that copy, as each rank reads and writes all of its data. They
// take turns in one run. Prints one JSON object a line, with the times of rank 0. algbw is bytes
// over the median time.
//
//   shm_all_reduce_bench [ROUNDS [RANKS...]]

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/check.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/shm/shm_group.h"
#include "worker/engine/collectives/testing/shared_memory_store.h"

namespace dp::engine {
namespace {

constexpr size_t kSizes[] = {size_t{1} << 10, size_t{64} << 10, size_t{1} << 20, size_t{25} << 20,
                             size_t{100} << 20};
// Bytes that each way moves in one turn, and the most sums of a turn.
constexpr size_t kTurnBytes = size_t{50} << 20;
constexpr size_t kTurnMax = 200;

// One way to spend time on `data`, and how long each try took.
struct Way {
  const char* name;
  absl::Span<float> data;
  std::function<void(absl::Span<float> data)> run;
  std::vector<double> seconds = {};
};

double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

void Print(int ranks, size_t bytes, const std::vector<Way>& ways) {
  const bool mega = bytes >= size_t{1} << 20;
  std::printf("{\"name\":\"sum_%zu_%s_%d_ranks\",\"unit\":\"us\"", mega ? bytes >> 20 : bytes >> 10,
              mega ? "MiB" : "KiB", ranks);
  for (const Way& way : ways) {
    const double median = Quantile(way.seconds, 0.5);
    std::printf(",\"%s_p50\":%.1f,\"%s_p99\":%.1f,\"%s_algbw\":%.3f", way.name, median * 1e6,
                way.name, Quantile(way.seconds, 0.99) * 1e6, way.name,
                static_cast<double>(bytes) / median / 1e9);
  }
  std::printf("}\n");
  std::fflush(stdout);
}

void TakeTurn(Way& way, size_t count, bool counts) {
  for (size_t i = 0; i < count; ++i) {
    const absl::Time begin = absl::Now();
    way.run(way.data);
    if (counts) way.seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
  }
}

void Measure(Group& shm, Group& gloo, size_t bytes, int rounds) {
  std::vector<float> data(bytes / sizeof(float), 1.0f), copy(data.size());
  const auto sum = [](Group& group) {
    return [&group](absl::Span<float> floats) {
      DP_CHECK(group.AllReduce(floats, ReduceOp::kMean)->Wait().ok());
    };
  };
  const absl::Span<float> heap(reinterpret_cast<float*>(shm.Allocate(bytes).data()), data.size());
  std::fill(heap.begin(), heap.end(), 1.0f);
  std::vector<Way> ways{{"heap", heap, sum(shm)},
                        {"shm", absl::MakeSpan(data), sum(shm)},
                        {"gloo", absl::MakeSpan(data), sum(gloo)},
                        {"copy", absl::MakeSpan(data), [&](absl::Span<float> floats) {
                           std::memcpy(copy.data(), floats.data(), bytes);
                         }}};
  const size_t count = std::clamp<size_t>(kTurnBytes / bytes, 1, kTurnMax);
  for (int round = 0; round <= rounds; ++round) {
    for (Way& way : ways) {
      // The ranks begin each turn together; the first round warms up.
      float one = 1.0f;
      DP_CHECK(shm.AllReduce(absl::MakeSpan(&one, 1), ReduceOp::kMean)->Wait().ok());
      TakeTurn(way, count, round > 0);
    }
  }
  if (shm.rank() == 0) Print(shm.size(), bytes, ways);
}

void Run(dp::Store& store, int rank, int ranks, int rounds) {
  auto shm = ConnectShm(store, rank, ranks, {});
  auto gloo = ConnectGloo(store, rank, ranks, {.address = "127.0.0.1"});
  DP_CHECK(shm.ok() && gloo.ok());
  for (const size_t bytes : kSizes) Measure(**shm, **gloo, bytes, rounds);
  (void)(*gloo)->Leave()->Wait();  // the figures are printed
  (void)(*shm)->Leave()->Wait();
}

// Returns whether all ranks ended well.
bool RunWorld(int ranks, int rounds) {
  SharedMemoryStore store;
  std::vector<pid_t> children;
  for (int rank = 1; rank < ranks; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Run(store, rank, ranks, rounds);
    _exit(0);
  }
  Run(store, 0, ranks, rounds);
  bool well = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    well = well && status == 0;
  }
  return well;
}

}  // namespace
}  // namespace dp::engine

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  std::vector<int> worlds{2, 4};
  if (argc > 2) worlds.assign({});
  for (int i = 2; i < argc; ++i) worlds.push_back(std::atoi(argv[i]));
  for (const int ranks : worlds) {
    if (!dp::engine::RunWorld(ranks, rounds)) return 1;
  }
  return 0;
}
