#include "tests/torture/torture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

// Crashes and errors at every operation on the disk, one after the other. `--seeds=N` tries N
// histories with every fault at every operation (make torture); `--seed=N` tries one of them. By
// default each operation meets some of the faults.

namespace dp::torture {

uint64_t seeds = 0;
uint64_t only_seed = 0;

namespace {

using How = FaultDisk::How;
using Loss = FaultDisk::Loss;

constexpr int kBatches = 48;
constexpr int kStride = 7;  // coprime to the number of ways
constexpr How kFaults[] = {How::kCrashBefore, How::kCrashAfter, How::kError, How::kFull,
                           How::kShort};
constexpr Loss kLosses[] = {Loss::kNothing, Loss::kAll, Loss::kSome};

// Two runs that end at a fault, then two runs without one. The second fault comes mostly during
// recovery or soon after. Returns the first inconsistency, or nothing.
std::string Try(uint64_t seed, FaultDisk::Fault fault, Loss loss, Plant plant) {
  Torture torture(seed, plant);
  torture.disk().Restart(Loss::kNothing, fault);
  torture.Live(kBatches);
  const int64_t second = static_cast<int64_t>((seed + fault.operation * 7) % 60);
  torture.disk().Restart(loss, FaultDisk::Fault{second, kFaults[fault.operation % 5]});
  torture.Live(kBatches);
  for (const Loss later : {loss, Loss::kAll}) {
    torture.disk().Restart(later, std::nullopt);
    torture.Live(3);
  }
  if (torture.broken().empty()) return "";
  return absl::StrCat(torture.broken().front(), " (seed ", seed, ", operation ", fault.operation,
                      ", fault ", static_cast<int>(fault.how), ", loss ", static_cast<int>(loss),
                      ")");
}

// The number of disk operations in a run without faults.
int64_t Operations(uint64_t seed) {
  Torture torture(seed, Plant::kNone);
  torture.disk().Restart(Loss::kNothing, std::nullopt);
  torture.Live(kBatches);
  EXPECT_EQ(torture.broken().size(), 0u);
  EXPECT_GE(torture.snapshots(), 3);
  EXPECT_GT(torture.acknowledged(), 2u * kBatches);
  return torture.disk().operations();
}

// Returns the first inconsistency in a history, or nothing; counts the points tried. Each operation
// fails in one of `stride` ways, the next operation in others.
std::string TryAll(uint64_t seed, Plant plant, int stride, int64_t* points) {
  const int64_t operations = Operations(seed);
  constexpr int kWays = std::size(kFaults) * std::size(kLosses);
  for (int64_t operation = 0; operation < operations; ++operation) {
    for (int way = static_cast<int>(operation % stride); way < kWays; way += stride) {
      ++*points;
      const How how = kFaults[way % std::size(kFaults)];
      const Loss loss = kLosses[way / std::size(kFaults)];
      const std::string broken = Try(seed, {operation, how}, loss, plant);
      if (!broken.empty()) return broken;
    }
  }
  return "";
}

TEST(TortureTest, WhatWasAcknowledgedSurvivesEveryCrashAndError) {
  int64_t points = 0;
  const uint64_t first = only_seed == 0 ? 1 : only_seed;
  const uint64_t count = only_seed == 0 ? std::max<uint64_t>(seeds, 1) : 1;
  const int stride = seeds == 0 && only_seed == 0 ? kStride : 1;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    ASSERT_EQ(TryAll(seed, Plant::kNone, stride, &points), "");
  }
  std::cout << points << " points\n";
  EXPECT_GE(points, 500);
}

constexpr char kWal[] = "/journal.sqlite-wal";
using Files = std::map<std::string, std::string>;

// The files left by a process that died after `operations` operations.
Files FilesAfter(Torture& torture, int64_t operations) {
  torture.disk().Restart(Loss::kNothing, FaultDisk::Fault{operations, How::kCrashAfter});
  torture.Live(kBatches);
  torture.disk().Restart(Loss::kNothing, std::nullopt);
  Files files = torture.disk().Contents();
  std::erase_if(files, [](const auto& file) { return file.second.empty(); });
  return files;
}

// Starts on `tampered`; returns whether the start was rejected. Fails the test on an inconsistency,
// and if a rejected start has changed the files.
bool Refused(Torture& torture, const Files& tampered) {
  torture.disk().Replace(tampered);
  const absl::Status status = torture.TryStart();
  EXPECT_EQ(torture.broken(), std::vector<std::string>());
  if (status.ok()) return false;
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  // SQLite creates an empty WAL if there is none.
  Files left = torture.disk().Contents();
  std::erase_if(left, [](const auto& file) { return file.second.empty(); });
  EXPECT_TRUE(left == tampered) << "a refused start has changed the files";
  return true;
}

// A start either recovers everything acknowledged, or is rejected.
TEST(TamperTest, AWalThatIsMissingOlderOrCutIsNeverTakenForWhole) {
  constexpr uint64_t kSeed = 1;
  int missing = 0, older = 0, cut = 0;
  const int64_t operations = Operations(kSeed);
  for (int64_t operation = 10; operation < operations; operation += kStride) {
    const auto with_wal = [&](const std::optional<std::string>& wal) {
      Torture torture(kSeed, Plant::kNone);
      Files files = FilesAfter(torture, operation);
      if (wal.has_value() && !wal->empty()) {
        files[kWal] = *wal;
      } else {
        files.erase(kWal);
      }
      return Refused(torture, files) ? 1 : 0;
    };
    Torture before(kSeed, Plant::kNone), now(kSeed, Plant::kNone);
    const std::string wal = FilesAfter(now, operation)[kWal];
    missing += with_wal(std::nullopt);
    older += with_wal(FilesAfter(before, operation - 9)[kWal]);
    cut += with_wal(wal.substr(0, wal.size() / 2));
  }
  std::cout << "refused: " << missing << " without, " << older << " older, " << cut << " cut\n";
  EXPECT_GE(missing, 20);
  EXPECT_GE(older, 20);
  EXPECT_GE(cut, 20);
}

class PlantTest : public testing::Test {
 protected:
  static std::string Found(Plant plant) {
    int64_t points = 0;
    const std::string broken = TryAll(1, plant, kStride, &points);
    std::cout << "after " << points << " points: " << broken << "\n";
    return broken;
  }
};

TEST_F(PlantTest, ADiskThatDoesNotSyncIsFound) {
  EXPECT_TRUE(absl::StrContains(Found(Plant::kIgnoreSyncs), "was acknowledged"));
}

TEST_F(PlantTest, AnAnswerBeforeTheSyncIsFound) {
  EXPECT_TRUE(absl::StrContains(Found(Plant::kAnswerBeforeSync), "was acknowledged"));
}

TEST_F(PlantTest, ABatchInSeveralTransactionsIsFound) {
  EXPECT_TRUE(absl::StrContains(Found(Plant::kHalfBatches), "half of a batch"));
}

TEST_F(PlantTest, GoingOnAfterAnErrorIsFound) {
  EXPECT_TRUE(absl::StrContains(Found(Plant::kGoOnAfterError), "after an error"));
}

}  // namespace
}  // namespace dp::torture

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--seeds=")) {
      if (!absl::SimpleAtoi(argument, &dp::torture::seeds)) return 2;
    } else if (absl::ConsumePrefix(&argument, "--seed=")) {
      if (!absl::SimpleAtoi(argument, &dp::torture::only_seed)) return 2;
    }
  }
  return RUN_ALL_TESTS();
}
