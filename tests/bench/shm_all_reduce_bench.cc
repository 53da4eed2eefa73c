// Sums over the processes of this host: through shared memory, by Gloo over loopback, and beside
// these a copy of the same bytes. "heap" sums memory that the group has allocated, "shm" any other.
// No sum is faster than that copy, as each rank reads and writes all of its data. They
// take turns in one run. Prints one JSON object a line, with the times of rank 0. algbw is bytes
// over the median time.
//
//   shm_all_reduce_bench [ROUNDS [RANKS...]]

#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/bench/all_reduce_turns.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/shm/shm_group.h"

namespace dp::engine {
namespace {

constexpr size_t kSizes[] = {size_t{1} << 10, size_t{64} << 10, size_t{1} << 20, size_t{25} << 20,
                             size_t{100} << 20};

void Measure(Group& shm, Group& gloo, size_t bytes, int rounds) {
  std::vector<float> data(bytes / sizeof(float), 1.0f), copy(data.size());
  const absl::Span<float> heap(reinterpret_cast<float*>(shm.Allocate(bytes).data()), data.size());
  std::fill(heap.begin(), heap.end(), 1.0f);
  std::vector<Way> ways{{"heap", heap, SumOver(shm)},
                        {"shm", absl::MakeSpan(data), SumOver(shm)},
                        {"gloo", absl::MakeSpan(data), SumOver(gloo)},
                        {"copy", absl::MakeSpan(data), [&](absl::Span<float> floats) {
                           std::memcpy(copy.data(), floats.data(), bytes);
                         }}};
  TakeTurns(ways, bytes, rounds, shm);
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

}  // namespace
}  // namespace dp::engine

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  std::vector<int> worlds{2, 4};
  if (argc > 2) worlds.assign({});
  for (int i = 2; i < argc; ++i) worlds.push_back(std::atoi(argv[i]));
  for (const int ranks : worlds) {
    const auto run = [&](dp::Store& store, int rank) {
      dp::engine::Run(store, rank, ranks, rounds);
    };
    if (!dp::engine::RunRanks(ranks, run)) return 1;
  }
  return 0;
}
