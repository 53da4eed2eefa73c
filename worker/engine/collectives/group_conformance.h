#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "worker/engine/collectives/group.h"

// What every backend of Group must do (group_conformance.cc), run against each with 1 to 4 ranks as
// threads:
//
//   INSTANTIATE_TEST_SUITE_P(LocalGroup, GroupConformance,
//                            ::testing::Combine(::testing::Values(OpenLocal),
//                                               ::testing::Range(1, 5)));

namespace dp::engine {

using Groups = std::vector<std::unique_ptr<Group>>;
// Opens one group per rank, all in this process.
using OpenGroups = std::function<Groups(int size, const GroupOptions& options)>;

// Runs `body(rank's group)` on one thread per rank.
inline void OnEveryRank(Groups& groups, const std::function<void(Group&)>& body) {
  std::vector<std::jthread> threads;
  for (auto& group : groups) threads.emplace_back([&body, &group] { body(*group); });
}

class GroupConformance : public ::testing::TestWithParam<std::tuple<OpenGroups, int>> {
 protected:
  int size() const { return std::get<1>(GetParam()); }
  Groups Open(absl::Duration timeout = absl::Seconds(60)) const {
    return std::get<0>(GetParam())(size(), {.timeout = timeout});
  }
  bool alone() const { return size() == 1; }
};

}  // namespace dp::engine
