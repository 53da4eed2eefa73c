#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/collectives/testing/shared_memory_store.h"

// Shared by the benchmarks of sums over processes. Ways to sum take turns, and the ranks begin each
// turn together.

namespace dp::engine {

// Bytes that each way moves in one turn, and the most sums of a turn.
inline constexpr size_t kTurnBytes = size_t{50} << 20;
inline constexpr size_t kTurnMax = 200;

// One way to spend time on `data`, and how long each try took.
struct Way {
  const char* name;
  absl::Span<float> data;
  std::function<void(absl::Span<float> data)> run;
  std::vector<double> seconds = {};
};

inline double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

// One JSON object. algbw is bytes over the median time.
inline void Print(int ranks, size_t bytes, const std::vector<Way>& ways) {
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

inline std::function<void(absl::Span<float>)> SumOver(Group& group) {
  return [&group](absl::Span<float> floats) {
    DP_CHECK(group.AllReduce(floats, ReduceOp::kMean)->Wait().ok());
  };
}

// `together` lets the ranks begin each turn at once. The first round warms up.
inline void TakeTurns(std::vector<Way>& ways, size_t bytes, int rounds, Group& together) {
  const size_t count = std::clamp<size_t>(kTurnBytes / bytes, 1, kTurnMax);
  for (int round = 0; round <= rounds; ++round)
    for (Way& way : ways) {
      float one = 1.0f;
      SumOver(together)(absl::MakeSpan(&one, 1));
      for (size_t i = 0; i < count; ++i) {
        const absl::Time begin = absl::Now();
        way.run(way.data);
        if (round > 0) way.seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
      }
    }
}

// Runs each rank in a process; this one is rank 0. Returns whether all ended well.
inline bool RunRanks(int ranks, const std::function<void(Store& store, int rank)>& run) {
  SharedMemoryStore store;
  std::vector<pid_t> children;
  for (int rank = 1; rank < ranks; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run(store, rank);
    _exit(0);
  }
  run(store, 0);
  bool well = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    well = well && status == 0;
  }
  return well;
}

}  // namespace dp::engine
