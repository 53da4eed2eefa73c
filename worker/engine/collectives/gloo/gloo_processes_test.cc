#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/testing/group_processes.h"

namespace dp::engine {
namespace {

absl::StatusOr<std::unique_ptr<Group>> OnLoopback(Store& store, int rank, int size,
                                                  absl::Duration timeout) {
  return ConnectGloo(store, rank, size, {.group = {.timeout = timeout}, .address = "127.0.0.1"});
}

INSTANTIATE_TEST_SUITE_P(Gloo, GroupProcesses,
                         ::testing::Combine(::testing::Values(ProcessBackend{OnLoopback}),
                                            ::testing::Values(size_t{100}, size_t{3000000})));

}  // namespace
}  // namespace dp::engine
