#include "tests/torture/random_commands.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_join.h"
#include "server/core/invariants.h"

namespace dp::torture {
namespace {

constexpr int kCommands = 4000;

TEST(RandomCommandsTest, EveryKindOfCommandIsDrawnAndAccepted) {
  core::Coordinator coordinator;
  core::Invariants invariants;
  RandomCommands commands(/*seed=*/1);
  std::set<size_t> kinds;
  for (int i = 0; i < kCommands; ++i) {
    const core::Command command{absl::FromUnixSeconds(i), commands.Draw(coordinator)};
    if (coordinator.Apply(command).journal) kinds.insert(command.action.index());
    ASSERT_EQ(absl::StrJoin(invariants.Broken(coordinator.state()), "\n"), "");
  }
  std::set<size_t> all;
  for (size_t kind = 0; kind < std::variant_size_v<core::AnyAction>; ++kind) all.insert(kind);
  EXPECT_EQ(absl::StrJoin(kinds, " "), absl::StrJoin(all, " "));
}

TEST(RandomCommandsTest, TheSameSeedDrawsTheSame) {
  uint64_t digests[2];
  for (uint64_t& digest : digests) {
    core::Coordinator coordinator;
    RandomCommands commands(/*seed=*/7);
    for (int i = 0; i < 300; ++i) {
      coordinator.Apply({absl::FromUnixSeconds(i), commands.Draw(coordinator)});
    }
    digest = coordinator.StateDigest();
  }
  EXPECT_EQ(digests[0], digests[1]);
}

}  // namespace
}  // namespace dp::torture
