#include "worker/engine/collectives/hierarchical/hierarchical_group.h"
#include "worker/engine/collectives/testing/group_processes.h"

namespace dp::engine {
namespace {

// Even ranks are on one simulated host, and odd ones on another.
absl::StatusOr<std::unique_ptr<Group>> OnTwoHosts(Store& store, int rank, int size,
                                                  absl::Duration timeout) {
  auto connected = ConnectHierarchical(store, rank, size,
                                       {.group = {.timeout = timeout},
                                        .connect_timeout = absl::Minutes(1),
                                        .address = "127.0.0.1",
                                        .interface = "",
                                        .host = rank % 2 == 0 ? "even" : "odd"});
  if (!connected.ok()) return connected.status();
  return std::move(connected->group);
}

INSTANTIATE_TEST_SUITE_P(Hierarchical, GroupProcesses,
                         ::testing::Combine(::testing::Values(ProcessBackend{OnTwoHosts}),
                                            ::testing::Values(size_t{100}, size_t{3000000})));

}  // namespace
}  // namespace dp::engine
