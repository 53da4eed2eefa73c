// Ranks push at random and repeat what they are not sure of. Coordinator and ranks crash, also
// together, and the next generation may have another number of ranks. Every gradient takes effect
// once, versions only grow, and no rank keeps more than it planned. `--seed=N` runs one seed.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/random.h"
#include "gtest/gtest.h"
#include "server/parameters/core/gradient_table.h"

namespace dp::server {
namespace {

constexpr int kSeeds = 100;
constexpr int kActions = 400;

// One rank, as the client is: keeps its gradients since the durable state, and pushes them again
// after a crash of the coordinator. A rank that dies itself has none.
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
    ranks_.resize(ranks());
    base_pushed_.resize(ranks());
    durable_ = {.progress = {.pushed = base_pushed_}, .values = {0}};
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

  size_t ranks() const { return static_cast<size_t>(options_.ranks); }

  void Act() {
    const int rank = Below(options_.ranks);
    switch (Below(30)) {
      case 0:
        if (Below(3) == 0) LoseRanks();  // together
        return Crash();
      case 6:
        return LoseRanks();
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
    ASSERT_TRUE(table_->Push(rank, {own.kept[number]}, {}).ok());
    own.next = std::max(own.next, number + 1);
    const uint64_t durable = table_->durable().pushed[static_cast<size_t>(rank)];
    own.kept.erase(own.kept.begin(), own.kept.upper_bound(durable));
    // The table takes one more behind two intervals.
    EXPECT_LE(own.kept.size(), static_cast<size_t>(2 * options_.publish_every + 1));
  }

  void Repeat(int rank) {
    Rank& own = ranks_[static_cast<size_t>(rank)];
    if (own.kept.empty()) return;
    const uint64_t number = own.kept.begin()->first;
    if (number >= table_->Next(rank)) return;
    EXPECT_EQ(table_->Judge(rank, number), GradientTable::Verdict::kRepeated);
  }

  GradientTable::State Present() {
    return {.progress = table_->progress(),
            .values = {table_->values().begin(), table_->values().end()},
            .arrays = table_->arrays()};
  }

  void BeginOrEndPublish() {
    if (table_->PublishDue()) {
      writing_ = Present();
      EXPECT_EQ(writing_.progress, table_->BeginPublish());
      writes_ = true;
    } else if (writes_) {
      const bool durable = Below(4) != 0;
      table_->EndPublish(durable);
      writes_ = false;
      if (durable) Wrote(writing_);
    }
  }

  void Wrote(const GradientTable::State& state) {
    EXPECT_GE(state.progress.steps, durable_.progress.steps) << "versions only grow";
    durable_ = state;
    durable_.durable = durable_.progress;
  }

  void Crash() {
    writes_ = false;
    table_ = std::make_unique<GradientTable>(options_, durable_);
  }

  // A rank dies, and the job restarts, perhaps with another number of ranks. The table publishes
  // what they go on from before they hear of it.
  void LoseRanks() {
    base_sum_ = Sum();
    if (Below(2) == 0) options_.ranks = 1 + Below(4);
    GradientTable::State next = Present();
    next.progress = ForRanks(next.progress, options_.ranks);
    base_pushed_ = next.progress.pushed;
    Wrote(next);
    Crash();
    ranks_.assign(ranks(), {});
    for (int rank = 0; rank < options_.ranks; ++rank) {
      ranks_[static_cast<size_t>(rank)].next = table_->Next(rank);
    }
  }

  // The sum of all gradients in the state, each once; in kSync, of their means.
  double Sum() const {
    double sum = 0;
    for (size_t rank = 0; rank < ranks(); ++rank) {
      const uint64_t pushed = table_->progress().pushed[rank];
      for (uint64_t number = base_pushed_[rank] + 1; number <= pushed; ++number) {
        sum += double{Gradient(static_cast<int>(rank), number)};
      }
    }
    return base_sum_ + (options_.mode == TableMode::kSync ? sum / options_.ranks : sum);
  }

  void CheckSum() {
    const double sum = Sum();
    ASSERT_NEAR(-table_->values()[0], sum,
                options_.mode == TableMode::kSync ? 1e-3 * (1 + sum) : 0);
  }

  uint64_t random_;
  TableOptions options_;
  std::vector<Rank> ranks_;
  std::unique_ptr<GradientTable> table_;
  GradientTable::State durable_;
  double base_sum_ = 0;                // when the generation began
  std::vector<uint64_t> base_pushed_;  // likewise, by rank
  GradientTable::State writing_;
  bool writes_ = false;
  int64_t steps_max_ = 0;
};

TEST(GradientTableSimulationTest, EachGradientTakesEffectOnceWhateverHappens) {
  uint64_t first = 1, last = kSeeds;
  for (const std::string& argument : testing::internal::GetArgvs()) {
    absl::string_view value = argument;
    if (absl::ConsumePrefix(&value, "--seed=") && absl::SimpleAtoi(value, &first)) last = first;
  }
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(absl::StrCat("--seed=", seed));
    Simulation(seed).Run();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace dp::server
