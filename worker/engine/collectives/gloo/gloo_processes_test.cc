#include <sys/mman.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/testing/group_processes.h"

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Group>> OnLoopback(Store& store, int rank, int size,
                                                  absl::Duration timeout) {
  return ConnectGloo(store, rank, size, {.group = {.timeout = timeout}, .address = "127.0.0.1"});
}

INSTANTIATE_TEST_SUITE_P(Gloo, GroupProcesses,
                         ::testing::Combine(::testing::Values(ProcessBackend{OnLoopback}),
                                            ::testing::Values(size_t{100}, size_t{3000000})));

// Gloo can hang when a write fails. Rank 0 sends memory that cannot be read, while others keep
// Gloo's loop busy. About every third round hits the moment; in the others Gloo fails, or ends the
// process. A Gloo that never hangs skips it.
TEST(GlooProcessesTest, ACallOfGlooThatNeverReturnsHoldsNobody) {
  constexpr int kSize = 6, kRounds = 30;
  constexpr size_t kBytes = 1 << 16;
  for (int round = 0; round < kRounds; ++round) {
    World world = StartRanks(
        OnLoopback, kSize, absl::Seconds(2), [](Group& group, const Process::Line& line) {
          void* const unreadable =
              mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          std::vector<uint8_t> data(kBytes), memory(kSize * kBytes);
          std::vector<absl::Span<const uint8_t>> sent(kSize, absl::MakeConstSpan(data));
          std::vector<absl::Span<uint8_t>> received;
          for (size_t r = 0; r < kSize; ++r)
            received.push_back(absl::MakeSpan(memory).subspan(r * kBytes, kBytes));
          (void)group.Exchange(sent, received)->Wait();
          if (group.rank() == 0) sent[1] = {static_cast<uint8_t*>(unreadable), kBytes};
          line.Say("ready");
          line.AwaitCommand();
          line.Say(TextOfStatus(group.Exchange(sent, received)->Wait()));
        });
    for (auto& process : world) process->Command();
    for (auto& process : world) ASSERT_EQ(process->Hear(), "ready");
    world[1]->Command();
    for (const int r : {0, 2, 3, 4, 5}) world[r]->Command();
    const std::string error = world[0]->Hear();
    if (!absl::StrContains(error, "does not return")) continue;
    EXPECT_THAT(error, HasSubstr("DEADLINE_EXCEEDED: exchange 2 did not end within 2s; a call of"));
    for (const int r : {2, 3, 4, 5})
      EXPECT_EQ(world[r]->Hear(), "DEADLINE_EXCEEDED: exchange 2: rank 0 did not arrive within 2s");
    world[0]->Command();
    EXPECT_EQ(world[0]->Hear(), "closed");
    return;
  }
  GTEST_SKIP() << "Gloo did not hang in " << kRounds << " rounds";
}

}  // namespace
}  // namespace dp::engine
