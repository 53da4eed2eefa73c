#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "store/store.h"
#include "worker/engine/collectives/nccl/nccl_group.h"
#include "worker/engine/collectives/testing/fake_nccl.h"

namespace dp::trainer {

// Connects `size` ranks, which are threads of this process, through `store`, and returns their
// groups. Work on their "GPU" is done when its call returns.
inline std::vector<std::unique_ptr<engine::Group>> OpenFakeNccl(engine::FakeNccl& nccl,
                                                                Store& store, int size) {
  std::vector<std::unique_ptr<engine::Group>> groups(static_cast<size_t>(size));
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      auto group = engine::ConnectNccl(nccl, store, rank, size,
                                       {.group = {.timeout = absl::Seconds(60)},
                                        .connect_timeout = absl::Seconds(60),
                                        .beat = absl::Milliseconds(50),
                                        .ask_ras = false});
      ASSERT_TRUE(group.ok()) << group.status();
      groups[static_cast<size_t>(rank)] = *std::move(group);
    });
  }
  ranks.clear();
  return groups;
}

}  // namespace dp::trainer
