// Ranks push at random through the thread of a table, also repeats with other values, which may not
// have an effect. Coordinator and ranks die between. `--seed=N` runs one seed.

#include <algorithm>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/random.h"
#include "base/testing/scratch_dir.h"
#include "gtest/gtest.h"
#include "server/parameters/table_thread.h"

namespace dp::server {
namespace {

constexpr int kTableSeeds = 10;
constexpr int kTableActions = 150;
constexpr int kTableRanks = 2;
constexpr JobId kTableJob(7);

// One value, plain SGD with a rate of 1: the value is minus the sum of all gradients.
v1::TableSettings OneValue(v1::TableMode mode) {
  v1::TableSettings settings;
  settings.set_mode(mode);
  settings.set_ranks(kTableRanks);
  settings.set_publish_every(4);
  settings.set_size(1);
  v1::TableParameter* const parameter = settings.add_parameters();
  parameter->set_name("w");
  parameter->add_shape(1);
  parameter->set_size(1);
  parameter->set_learning_rate_factor(1);
  settings.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  settings.mutable_schedule()->set_steps_of_epoch(10);
  settings.mutable_schedule()->set_steps_total(100);
  return settings;
}

class TableSimulation {
 public:
  explicit TableSimulation(uint64_t seed)
      : random_(seed),
        settings_(OneValue(Below(2) == 0 ? v1::TABLE_MODE_SYNC : v1::TABLE_MODE_ASYNC)) {
    EXPECT_EQ(store_.Load(), absl::OkStatus());
    Start();
    for (int rank = 0; rank < kTableRanks; ++rank) EXPECT_TRUE(Open(rank).ok());
    EXPECT_TRUE(Push(0, 0, 0).ok());
  }

  void Run() {
    for (int i = 0; i < kTableActions && !testing::Test::HasFailure(); ++i) {
      Act();
      CheckSum();
    }
  }

 private:
  int Below(int bound) {
    return static_cast<int>(NextRandom(random_) % static_cast<uint64_t>(bound));
  }
  // Whole numbers, and even ones, so that sums and means are exact.
  static float Gradient(int rank, uint64_t number) {
    return static_cast<float>(2 * ((static_cast<uint64_t>(rank) * 13 + number * 7) % 5));
  }

  void Act() {
    const int rank = Below(kTableRanks);
    switch (Below(20)) {
      case 0:  // the coordinator is killed; ranks open the table again where it is
        Start();
        return OpenAll();
      case 1:
        ++generation_;
        OpenAll();
        std::copy(std::begin(next_), std::end(next_), std::begin(joined_));
        return;
      case 2:
      case 3:
      case 4:
        return Repeat(rank);
      default:
        return Go(rank);
    }
  }

  void Start() {
    table_.reset();
    table_ = std::make_unique<TableThread>(kTableJob, store_, memory_, tasks_);
  }

  // A rank of this generation that lost gradients has kept them.
  void OpenAll() {
    for (int rank = 0; rank < kTableRanks; ++rank) {
      auto opened = Open(rank);
      ASSERT_TRUE(opened.ok()) << opened.status();
      if (opened->initial) {
        ASSERT_TRUE(Push(0, 0, 0).ok());
        opened = Open(rank);
        ASSERT_TRUE(opened.ok()) << opened.status();
      }
      EXPECT_GE(opened->next, joined_[rank]) << "nobody has kept gradients before that";
      next_[rank] = opened->next;
    }
  }

  void Go(int rank) {
    const absl::StatusOr<uint64_t> next = Push(rank, next_[rank], Gradient(rank, next_[rank]));
    if (absl::IsAborted(next.status())) return;  // it must wait
    ASSERT_TRUE(next.ok()) << next.status();
    next_[rank] = *next;
  }

  // As a push whose answer was lost, but with other values. The data come
  // although the table does not want them.
  void Repeat(int rank) {
    if (next_[rank] < 2) return;
    const uint64_t number = 1 + static_cast<uint64_t>(Below(static_cast<int>(next_[rank]) - 1));
    const auto place = Await<TableThread::Place>(
        [&](auto done) { return table_->Begin(From(rank), number, std::move(done)); });
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_FALSE(place->take);
    const auto next = PushData(rank, number, {12'345});
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(*next, next_[rank]);
  }

  void CheckSum() {
    const auto pulled = Await<TableThread::Pulled>([&](auto done) {
      return table_->Pull(From(0), 0, absl::Seconds(30), false, std::move(done));
    });
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    const bool sync = settings_.mode() == v1::TABLE_MODE_SYNC;
    const uint64_t steps = static_cast<uint64_t>(pulled->state.steps());
    float sum = 0;
    for (int rank = 0; rank < kTableRanks; ++rank) {
      const uint64_t pushed = sync ? steps : next_[rank] - 1;
      for (uint64_t number = 1; number <= pushed; ++number) sum += Gradient(rank, number);
    }
    ASSERT_EQ(-(*pulled->values)[0], sync ? sum / kTableRanks : sum);
  }

  template <typename Answer, typename Method>
  absl::StatusOr<Answer> Await(Method method) {
    std::promise<absl::StatusOr<Answer>> answer;
    const absl::Status begun =
        method([&answer](absl::StatusOr<Answer> got) { answer.set_value(std::move(got)); });
    if (!begun.ok()) return begun;
    return answer.get_future().get();
  }
  TableThread::From From(int rank) const { return {Generation(generation_), rank}; }
  absl::StatusOr<TableThread::Opened> Open(int rank) {
    return Await<TableThread::Opened>(
        [&](auto done) { return table_->Open(From(rank), settings_, std::move(done)); });
  }
  absl::StatusOr<uint64_t> Push(int rank, uint64_t number, float value) {
    const auto place = Await<TableThread::Place>(
        [&](auto done) { return table_->Begin(From(rank), number, std::move(done)); });
    if (!place.ok()) return place.status();
    if (!place->take) return place->next;
    return PushData(rank, number, {value});
  }
  absl::StatusOr<uint64_t> PushData(int rank, uint64_t number, std::vector<float> data) {
    return Await<uint64_t>([&](auto done) {
      return table_->Push(From(rank), number, std::move(data), {}, std::move(done));
    });
  }

  uint64_t random_;
  const v1::TableSettings settings_;
  uint64_t generation_ = 1;
  uint64_t next_[kTableRanks] = {1, 1};
  uint64_t joined_[kTableRanks] = {1, 1};  // the first gradients of this generation
  const ScratchDir scratch_;
  ParameterStore store_{scratch_.path() / "parameters", ParameterLimits()};
  ParameterMemory memory_{1 << 20};
  TaskThreads tasks_{"test", 1};
  std::unique_ptr<TableThread> table_;
};

TEST(TableSimulationTest, ARepeatWithOtherValuesHasNoEffect) {
  uint64_t first = 1, last = kTableSeeds;
  for (const std::string& argument : testing::internal::GetArgvs()) {
    absl::string_view value = argument;
    if (absl::ConsumePrefix(&value, "--seed=") && absl::SimpleAtoi(value, &first)) last = first;
  }
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(absl::StrCat("--seed=", seed));
    TableSimulation(seed).Run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace dp::server
