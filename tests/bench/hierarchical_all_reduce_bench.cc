// Sums over the processes of several hosts: by both levels, and by Gloo alone. The hosts are
// simulated on this one, and all ranks talk over loopback. NAMESPACES name a network namespace for
// each host (/run/netns/NAME). The ranks of a host then run there, and listen at its eth0. Both
// ways take turns in one run. Prints one JSON object a line, with the times of rank 0.
//
//   hierarchical_all_reduce_bench ROUNDS RANKS_PER_HOST HOSTS [NAMESPACES...]

#include <fcntl.h>
#include <sched.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "store/prefix_store.h"
#include "tests/bench/all_reduce_turns.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/hierarchical/hierarchical_group.h"

namespace dp::engine {
namespace {

constexpr size_t kSizes[] = {size_t{1} << 10, size_t{64} << 10, size_t{1} << 20, size_t{25} << 20};

struct Hosts {
  int ranks_on_each = 2;
  int count = 2;
  std::vector<std::string> namespaces;
};

void EnterNamespace(const std::string& name) {
  const FileDescriptor space(open(absl::StrCat("/run/netns/", name).c_str(), O_RDONLY | O_CLOEXEC));
  DP_CHECK(space.valid() && setns(space.get(), CLONE_NEWNET) == 0);
}

void Run(Store& store, int rank, int rounds, const Hosts& hosts) {
  const int host = rank / hosts.ranks_on_each, ranks = hosts.count * hosts.ranks_on_each;
  HierarchicalOptions options{.address = "127.0.0.1", .interface = "", .host = absl::StrCat(host)};
  if (!hosts.namespaces.empty()) {
    EnterNamespace(hosts.namespaces[static_cast<size_t>(host)]);
    options.address.clear();
    options.interface = "eth0";
  }
  auto both = ConnectHierarchical(store, rank, ranks, options);
  PrefixStore alone("alone/", store);
  auto gloo =
      ConnectGloo(alone, rank, ranks, {.address = options.address, .interface = options.interface});
  DP_CHECK(both.ok() && gloo.ok());
  for (const size_t bytes : kSizes) {
    std::vector<float> data(bytes / sizeof(float), 1.0f);
    std::vector<Way> ways{{"hierarchical", absl::MakeSpan(data), SumOver(*both->group)},
                          {"gloo", absl::MakeSpan(data), SumOver(**gloo)}};
    TakeTurns(ways, bytes, rounds, **gloo);
    if (rank == 0) Print(ranks, bytes, ways);
  }
  (void)(*gloo)->Leave()->Wait();  // the figures are printed
  (void)both->group->Leave()->Wait();
}

}  // namespace
}  // namespace dp::engine

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  dp::engine::Hosts hosts{std::atoi(argv[2]), std::atoi(argv[3]), {argv + 4, argv + argc}};
  const auto run = [&](dp::Store& store, int rank) {
    dp::engine::Run(store, rank, std::atoi(argv[1]), hosts);
  };
  return dp::engine::RunRanks(hosts.count * hosts.ranks_on_each, run) ? 0 : 1;
}
