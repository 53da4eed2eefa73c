#include "tests/sim/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

// `--seed=N` runs one seed, `--verbose` prints its story, `--seeds=N` runs so many seeds.

namespace dp::sim {

uint64_t only_seed = 0;
uint64_t seeds = 200;
bool verbose = false;

namespace {

TEST(SimulationTest, AllPromisesHoldUnderFaults) {
  int jobs = 0, succeeded = 0, faults = 0, restarts = 0, departures = 0, short_leases = 0;
  const uint64_t first = only_seed == 0 ? 1 : only_seed;
  const uint64_t last = only_seed == 0 ? seeds : only_seed;
  for (uint64_t seed = first; seed <= last; ++seed) {
    const Report report = Simulation(seed, Plant::kNone, verbose).Run();
    EXPECT_EQ(absl::StrJoin(report.broken, "\n"), "")
        << "see it with --seed=" << seed << " --verbose";
    jobs += report.jobs;
    succeeded += report.succeeded;
    faults += report.faults;
    restarts += report.restarts;
    departures += report.departures;
    short_leases += report.short_leases_lost;
  }
  std::cout << jobs << " jobs, " << succeeded << " succeeded, " << faults << " faults, " << restarts
            << " restarts, " << departures << " made to leave, " << short_leases
            << " workers lost by a short lease\n";
  if (only_seed != 0) return;
  // The faults must neither spare the jobs nor kill them all.
  EXPECT_GT(succeeded, jobs / 5);
  EXPECT_LT(succeeded, jobs * 4 / 5);
  EXPECT_GT(restarts, jobs / 10);
  EXPECT_GT(departures, jobs / 50);
  EXPECT_GT(short_leases, jobs / 50);
}

TEST(SimulationTest, TheSameSeedTellsTheSameStory) {
  const Report first = Simulation(7, Plant::kNone, false).Run();
  const Report second = Simulation(7, Plant::kNone, false).Run();
  EXPECT_EQ(first.jobs, second.jobs);
  EXPECT_EQ(first.succeeded, second.succeeded);
  EXPECT_EQ(first.faults, second.faults);
}

// Each planted bug must be found within twice the seeds of a normal run.
class PlantTest : public testing::Test {
 protected:
  static std::string Found(Plant plant) {
    for (uint64_t seed = 1; seed <= 400; ++seed) {
      const Report report = Simulation(seed, plant, false).Run();
      if (report.broken.empty()) continue;
      std::cout << "seed " << seed << ", " << report.broken.front() << "\n";
      return report.broken.front();
    }
    return "nothing";
  }
  // Whether a seed of a normal run breaks this very promise: a bug may break several.
  static bool Breaks(Plant plant, const std::string& promise) {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      const Report report = Simulation(seed, plant, false).Run();
      if (absl::StrContains(absl::StrJoin(report.broken, "\n"), promise)) return true;
    }
    return false;
  }
};

using testing::HasSubstr;

TEST_F(PlantTest, AnAnswerBeforeTheSyncIsFound) {
  EXPECT_THAT(Found(Plant::kReplyBeforeSync),
              HasSubstr("an acknowledged command did not survive a crash"));
}

TEST_F(PlantTest, AFenceWithoutIncarnationsIsFound) {
  EXPECT_TRUE(Breaks(Plant::kIgnoreIncarnation, "has two live processes"));
}

TEST_F(PlantTest, ARetryWithASecondEffectIsFound) {
  for (const char* promise :
       {"lost or repeated an add", "was told the element", "lost an element"}) {
    EXPECT_TRUE(Breaks(Plant::kForgetRetries, promise)) << promise;
  }
}

TEST_F(PlantTest, ALostWakeIsFound) {
  EXPECT_THAT(Found(Plant::kLoseWakes), HasSubstr("a waiter slept through a change"));
}

TEST_F(PlantTest, ASlotThatIsFreedTooEarlyIsFound) {
  EXPECT_THAT(Found(Plant::kTakeSignalForEnd), HasSubstr("was released, but its process runs"));
}

TEST_F(PlantTest, ACommandThatOutlivesTouchIsFound) {
  EXPECT_THAT(Found(Plant::kOutliveTouch), HasSubstr("runs beside a later generation"));
}

TEST_F(PlantTest, ALeaseThatIsShortenedBehindItsDaemonsBackIsFound) {
  EXPECT_THAT(Found(Plant::kShortenAtOnce), HasSubstr("runs beside a later generation"));
}

// The coordinator restarts, or releases evictions that it held back. Each makes the holder of the
// name, this daemon's own predecessor, look as if it had sent a heartbeat.
TEST_F(PlantTest, ADaemonThatEndsBecauseItsNameIsTakenIsFound) {
  for (const char* promise : {"slots are free at the end", "is still pending at the end"}) {
    EXPECT_TRUE(Breaks(Plant::kEndOnTakenName, promise)) << promise;
  }
}

TEST_F(PlantTest, ALifeThatIsNamedDeadBeforeItsRanksAreIsFound) {
  EXPECT_THAT(Found(Plant::kReplaceTooSoon), HasSubstr("runs beside a later generation"));
}

}  // namespace
}  // namespace dp::sim

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    bool good = true;
    if (argument == "--verbose") {
      dp::sim::verbose = true;
    } else if (absl::ConsumePrefix(&argument, "--seeds=")) {
      good = absl::SimpleAtoi(argument, &dp::sim::seeds);
    } else if (absl::ConsumePrefix(&argument, "--seed=")) {
      good = absl::SimpleAtoi(argument, &dp::sim::only_seed);
    }
    if (!good) return 2;
  }
  return RUN_ALL_TESTS();
}
