// Ranks push at random and repeat what they are not sure of. The coordinator crashes to its durable
// state. Every gradient takes effect once, and versions only grow.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gtest/gtest.h"
#include "server/parameters/core/gradient_table.h"

namespace dp::server {
namespace {

constexpr int kSeeds = 100;
constexpr int kActions = 400;

// One rank, as the client is: keeps its gradients since the durable state, and pushes them again
// after a crash.
struct Rank {
  uint64_t next = 1;               // to compute
  std::map<uint64_t, float> kept;  // by number
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed) {
    const int mode = Below(3);
    options_ = {.mode = mode == 0   ? TableMode::kSync
                        : mode == 1 ? TableMode::kAsync
                                    : TableMode::kBounded,
                .ranks = 1 + Below(4),
                .max_staleness = Below(3),
                .publish_every = 1 + Below(5),
                .optimizer = {.update = engine::SgdOptions{.learning_rate = 1}},
                .steps_of_epoch = 10,
                .steps_total = 1'000'000};
    options_.layout.parameters = {{.name = "w", .shape = {1}, .offset = 0, .size = 1}};
    options_.layout.size = 1;
    ranks_.resize(static_cast<size_t>(options_.ranks));
    durable_ = {.progress = {.pushed = std::vector<uint64_t>(ranks_.size())}, .values = {0}};
    durable_.durable = durable_.progress;
    table_ = std::make_unique<GradientTable>(options_, durable_);
  }

  void Run() {
    for (int i = 0; i < kActions; ++i) {
      Act();
      CheckSum();
      steps_max_ = std::max(steps_max_, table_->progress().steps);
    }
    EXPECT_GT(steps_max_, 0);
  }

 private:
  int Below(int bound) {
    return static_cast<int>(NextRandom(random_) % static_cast<uint64_t>(bound));
  }

  void Act() {
    const int rank = Below(options_.ranks);
    switch (Below(30)) {
      case 0:
        return Crash();
      case 1:
      case 2:
      case 3:
        return BeginOrEndPublish();
      case 4:
      case 5:
        return Repeat(rank);
      default:
        return Go(rank);
    }
  }

  // The gradient `number` of a rank, of whole numbers, whose sums are exact.
  static float Gradient(int rank, uint64_t number) {
    return static_cast<float>((static_cast<uint64_t>(rank) * 13 + number * 7) % 5);
  }

  void Go(int rank) {
    Rank& own = ranks_[static_cast<size_t>(rank)];
    const uint64_t next = table_->Next(rank);
    if (next < own.next) {  // the table has lost some: replay them
      ASSERT_TRUE(own.kept.contains(next)) << "rank " << rank << " no longer has " << next;
    }
    const uint64_t number = next;
    if (table_->Judge(rank, number) != GradientTable::Verdict::kTake) return;
    own.kept[number] = Gradient(rank, number);
    table_->Push(rank, {own.kept[number]}, {});
    own.next = std::max(own.next, number + 1);
    const uint64_t durable = table_->durable().pushed[static_cast<size_t>(rank)];
    own.kept.erase(own.kept.begin(), own.kept.upper_bound(durable));
    const auto bound = static_cast<size_t>(3 * options_.publish_every + 2);
    if (options_.mode != TableMode::kAsync) {
      EXPECT_LE(own.kept.size(), bound + static_cast<size_t>(options_.max_staleness) +
                                     bound * static_cast<size_t>(options_.ranks));
    }
  }

  void Repeat(int rank) {
    Rank& own = ranks_[static_cast<size_t>(rank)];
    if (own.kept.empty()) return;
    const uint64_t number = own.kept.begin()->first;
    if (number >= table_->Next(rank)) return;
    EXPECT_EQ(table_->Judge(rank, number), GradientTable::Verdict::kRepeated);
  }

  void BeginOrEndPublish() {
    if (table_->PublishDue()) {
      writing_ = {.progress = table_->BeginPublish(),
                  .values = {table_->values().begin(), table_->values().end()},
                  .arrays = table_->arrays()};
      writes_ = true;
    } else if (writes_) {
      const bool durable = Below(4) != 0;
      table_->EndPublish(durable);
      writes_ = false;
      if (!durable) return;
      EXPECT_GE(writing_.progress.steps, durable_.progress.steps) << "versions only grow";
      writing_.durable = writing_.progress;
      durable_ = writing_;
    }
  }

  void Crash() {
    writes_ = false;
    table_ = std::make_unique<GradientTable>(options_, durable_);
  }

  // The weight is minus the sum of all gradients in the state, each once, and their mean in kSync.
  void CheckSum() {
    double sum = 0;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const uint64_t pushed = table_->progress().pushed[static_cast<size_t>(rank)];
      for (uint64_t number = 1; number <= pushed; ++number) sum += Gradient(rank, number);
    }
    const bool sync = options_.mode == TableMode::kSync;
    const double expected = sync ? sum / options_.ranks : sum;
    ASSERT_NEAR(-table_->values()[0], expected, sync ? 1e-3 * (1 + expected) : 0);
  }

  uint64_t random_;
  TableOptions options_;
  std::vector<Rank> ranks_;
  std::unique_ptr<GradientTable> table_;
  GradientTable::State durable_;
  GradientTable::State writing_;
  bool writes_ = false;
  int64_t steps_max_ = 0;
};

TEST(GradientTableSimulationTest, EachGradientTakesEffectOnceWhateverHappens) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Simulation(seed).Run();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace dp::server
