// Measures how a group of libdp_distributed is joined: how many requests each rank makes of the
// store, and how long it takes. Ranks are threads that share a store in memory, so that network and
// server cost nothing.
//
//   library_join_bench BACKEND RANKS
//
// Backend `none` exchanges nothing: only the ranks' agreement through the store is left.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dp/backend.h"
#include "store/hash_store.h"
#include "worker/library/joined_group.h"
#include "worker/library/open_store.h"

namespace dp::library {
namespace {

class CountedStore : public Store {
 public:
  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    ++requests_;
    return store_.Execute(operations);
  }
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override {
    ++requests_;
    return store_.Await(reads, timeout);
  }
  int64_t requests() const { return requests_; }

 private:
  HashStore store_;
  std::atomic<int64_t> requests_ = 0;
};

class NoExchanges : public distributed::Backend {
 public:
  void exchange(std::span<const std::span<const std::byte>>,
                std::span<const std::span<std::byte>>) override {}
  void abort() noexcept override {}
};

void Run(const std::string& backend, int ranks) {
  auto counted = std::make_unique<CountedStore>();
  const CountedStore& counts = *counted;
  const auto store =
      std::make_shared<OpenStore>(OpenStore{nullptr, std::move(counted), "127.0.0.1"});
  std::latch begun(ranks + 1), joined(ranks + 1), left(1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      begun.arrive_and_wait();
      const auto group = JoinedGroup::Join(store, {.name = "default",
                                                   .backend = backend,
                                                   .rank = rank,
                                                   .size = ranks,
                                                   .timeout = absl::Minutes(10),
                                                   .global_ranks = {},
                                                   .nccl = {}});
      joined.arrive_and_wait();
      left.wait();
    });
  }
  begun.arrive_and_wait();
  const auto start = std::chrono::steady_clock::now();
  joined.arrive_and_wait();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%s: %d ranks: %.2f requests a rank, %.2f s\n", backend.c_str(), ranks,
              static_cast<double>(counts.requests()) / ranks, seconds.count());
  std::fflush(stdout);
  _exit(0);  // leaving is not measured
}

}  // namespace
}  // namespace dp::library

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: library_join_bench BACKEND RANKS\n");
    return 2;
  }
  dp::distributed::register_backend("none", [](const dp::distributed::BackendPlace&) {
    return std::make_unique<dp::library::NoExchanges>();
  });
  dp::library::Run(argv[1], std::atoi(argv[2]));
}
