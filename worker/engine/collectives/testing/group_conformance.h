#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "worker/engine/collectives/group.h"

// The suite that every backend of Group must pass. Its cases are in the files of this folder that
// end in _conformance.cc. Each backend runs it with 1 to 4 ranks as threads:
//
//   INSTANTIATE_TEST_SUITE_P(LocalGroup, GroupConformance,
//                            ::testing::Combine(::testing::Values(Backend{OpenLocal}),
//                                               ::testing::Range(1, 5)));

namespace dp::engine {

using Groups = std::vector<std::unique_ptr<Group>>;
struct Backend {
  // Opens one group per rank, all in this process.
  std::function<Groups(int size, const GroupOptions& options)> open;
  // Whether errors name the ranks that are late or gone.
  bool names_ranks = true;
  // Whether a call may have a time limit of its own.
  bool has_limits_of_calls = true;
  // Whether calls that disagree fail with the difference. Elsewhere they meet the deadline.
  bool states_differences = true;
  // Whether no rank passes an exchange before all have called it. Elsewhere a rank passes one that
  // has no piece for it and from it; a difference then shows in its next operation. Nothing if that
  // depends on where the ranks are.
  std::optional<bool> all_meet = true;
  // Whether no rank passes an exchange before its pieces have been taken.
  bool senders_wait = true;
  // The backend's own words about a rank that is gone, which follow the name.
  std::string words_of_gone = "";
};

// Runs `body(rank's group)` on one thread per rank.
inline void OnEveryRank(Groups& groups, const std::function<void(Group&)>& body) {
  std::vector<std::jthread> threads;
  for (auto& group : groups) threads.emplace_back([&body, &group] { body(*group); });
}

class GroupConformance : public ::testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  int size() const { return std::get<1>(GetParam()); }
  Groups Open(absl::Duration timeout = absl::Seconds(60)) const {
    return std::get<0>(GetParam()).open(size(), {.timeout = timeout});
  }
  bool names_ranks() const { return std::get<0>(GetParam()).names_ranks; }
  std::string words_of_gone() const { return std::get<0>(GetParam()).words_of_gone; }
  bool has_limits_of_calls() const { return std::get<0>(GetParam()).has_limits_of_calls; }
  bool states_differences() const { return std::get<0>(GetParam()).states_differences; }
  std::optional<bool> all_meet() const { return std::get<0>(GetParam()).all_meet; }
  bool senders_wait() const { return std::get<0>(GetParam()).senders_wait; }
  bool alone() const { return size() == 1; }
};

// The suite of backends that pass messages between two ranks (message_conformance.cc), with the
// same parameters.
class MessageConformance : public GroupConformance {
 protected:
  void SetUp() override {
    if (alone()) GTEST_SKIP() << "one rank has no peer";
  }
  int last() const { return size() - 1; }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MessageConformance);

}  // namespace dp::engine
