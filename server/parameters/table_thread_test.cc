#include "server/parameters/table_thread.h"

#include <atomic>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Four values and a tail of one; plain SGD with a rate of 1.
v1::TableSettings Settings(int ranks = 2, v1::TableMode mode = v1::TABLE_MODE_SYNC) {
  v1::TableSettings settings;
  settings.set_mode(mode);
  settings.set_ranks(ranks);
  settings.set_publish_every(100);
  settings.set_size(4);
  settings.set_tail(1);
  v1::TableParameter* const parameter = settings.add_parameters();
  parameter->set_name("w");
  parameter->add_shape(3);
  parameter->set_size(3);
  parameter->set_learning_rate_factor(1);
  settings.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  settings.mutable_schedule()->set_steps_of_epoch(10);
  settings.mutable_schedule()->set_steps_total(100);
  return settings;
}

class TableThreadTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kNow = absl::ZeroDuration();
  static constexpr absl::Duration kPatience = absl::Seconds(30);

  void SetUp() override {
    ASSERT_EQ(store_.Load(), absl::OkStatus());
    Start();
  }
  void Start() { table_ = std::make_unique<TableThread>(JobId(7), store_, *memory_, tasks_); }
  // As a coordinator that is killed: nothing more is written.
  void Restart() {
    table_.reset();
    Start();
  }

  // Calls a method whose last argument is its answer, and waits for it.
  template <typename Answer, typename Method>
  absl::StatusOr<Answer> Await(Method method) {
    std::promise<absl::StatusOr<Answer>> answer;
    const absl::Status begun =
        method([&answer](absl::StatusOr<Answer> got) { answer.set_value(std::move(got)); });
    if (!begun.ok()) return begun;
    return answer.get_future().get();
  }
  absl::StatusOr<TableThread::Opened> Open(int rank, uint64_t generation = 1,
                                           const v1::TableSettings& settings = Settings()) {
    return Await<TableThread::Opened>([&](auto done) {
      return table_->Open({Generation(generation), rank}, settings, std::move(done));
    });
  }
  absl::StatusOr<uint64_t> Push(int rank, uint64_t number, float value, uint64_t generation = 1) {
    const TableThread::From from = {Generation(generation), rank};
    auto place = Await<TableThread::Place>(
        [&](auto done) { return table_->Begin(from, number, std::move(done)); });
    if (!place.ok()) return place.status();
    if (!place->take) return place->next;
    return Await<uint64_t>([&](auto done) {
      return table_->Push(from, number, std::vector<float>(place->floats, value), {},
                          std::move(done));
    });
  }
  absl::StatusOr<TableThread::Pulled> Pull(int rank, uint64_t number, absl::Duration timeout,
                                           uint64_t generation = 1) {
    return Await<TableThread::Pulled>([&](auto done) {
      return table_->Pull({Generation(generation), rank}, number, timeout, false, std::move(done));
    });
  }
  absl::StatusOr<v1::ParameterVersion> Publish(bool close = false, uint64_t number = 0,
                                               uint64_t generation = 1) {
    return Await<v1::ParameterVersion>([&](auto done) {
      return table_->Publish({Generation(generation), 0}, number, close, std::move(done));
    });
  }
  // Holds the thread that writes until the result is set.
  std::promise<void> HoldWrites() {
    std::promise<void> release;
    EXPECT_EQ(tasks_.Submit([held = release.get_future().share()] { held.wait(); }),
              absl::OkStatus());
    return release;
  }
  // Both ranks have opened a table whose values are 0.
  void OpenBoth() {
    EXPECT_TRUE(Open(0)->initial);
    EXPECT_TRUE(Open(1)->initial);
    EXPECT_EQ(*Push(0, 0, 0), 1u);
  }
  void PushBoth(uint64_t number, float value) {
    EXPECT_EQ(*Push(0, number, value), number + 1);
    EXPECT_EQ(*Push(1, number, value), number + 1);
  }
  float Value(uint64_t number) { return (*Pull(0, number, kPatience)->values)[0]; }

  const ScratchDir scratch_;
  std::atomic<uint64_t> available_ = ParameterLimits::kNone;  // bytes on the disk
  ParameterStore store_{scratch_.path() / "parameters", ParameterLimits(), [this] {
                          if (on_write_) std::exchange(on_write_, nullptr)();
                          return available_.load();
                        }};
  std::function<void()> on_write_;  // called once, where a version is begun
  std::unique_ptr<ParameterMemory> memory_ = std::make_unique<ParameterMemory>(1 << 20);
  TaskThreads tasks_{"test", 1};
  std::unique_ptr<TableThread> table_;
};

TEST_F(TableThreadTest, AStepIsTakenWhenAllRanksHavePushed) {
  OpenBoth();
  EXPECT_EQ(*Push(1, 1, 2), 2u);
  const auto late = Pull(1, 1, kNow);
  EXPECT_THAT(late->missing, ElementsAre(0));
  EXPECT_THAT(late->missing_at, ElementsAre(0));
  EXPECT_EQ(*Push(0, 1, 4), 2u);
  EXPECT_EQ(Value(1), -3);
  EXPECT_EQ(Pull(1, 1, kPatience)->state.tail(0), 3);
}

TEST_F(TableThreadTest, ARepeatedPushHasNoEffect) {
  OpenBoth();
  PushBoth(1, 1);
  EXPECT_EQ(*Push(0, 1, 99), 2u);
  EXPECT_EQ(*Push(0, 0, 99), 1u);
  EXPECT_EQ(*Push(0, 5, 99), 2u);
  EXPECT_EQ(Value(1), -1);
}

TEST_F(TableThreadTest, AGradientThatComesTooEarlyIsRejected) {
  OpenBoth();
  EXPECT_EQ(*Push(0, 1, 1), 2u);
  EXPECT_TRUE(absl::IsAborted(Push(0, 2, 1).status()));
}

TEST_F(TableThreadTest, ARestartGoesOnFromTheDurableState) {
  OpenBoth();
  PushBoth(1, 1);
  ASSERT_EQ(Publish()->step(), 1);
  PushBoth(2, 1);
  EXPECT_EQ(Value(2), -2);
  Restart();
  EXPECT_TRUE(absl::IsFailedPrecondition(Push(0, 3, 1).status()));
  const auto opened = Open(0);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_FALSE(opened->initial);
  EXPECT_EQ(opened->next, 2u);
  EXPECT_THAT(opened->state.durable_by_rank(), ElementsAre(1, 1));
  EXPECT_EQ(Value(1), -1);
  ASSERT_TRUE(Open(1).ok());
  PushBoth(2, 1);
  EXPECT_EQ(Value(2), -2);
}

// Rank 0 heard nothing of the restart, because rank 1 opened the table before its next call.
TEST_F(TableThreadTest, ARankWhoseGradientWasLostPushesItAgain) {
  OpenBoth();
  PushBoth(1, 1);
  ASSERT_TRUE(Publish().ok());
  PushBoth(2, 1);
  Restart();
  EXPECT_EQ(Open(1)->next, 2u);
  const absl::Status lost = Pull(0, 2, kPatience).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(lost));
  EXPECT_THAT(lost.message(),
              HasSubstr("its table lacks gradient 2 of rank 0; open it, and push again from "
                        "gradient 2"));
  EXPECT_EQ(Publish(/*close=*/true, /*number=*/2).status(), lost);
  PushBoth(2, 1);
  EXPECT_EQ(Publish(/*close=*/true, /*number=*/2)->step(), 2);
}

TEST_F(TableThreadTest, ValuesOfATableThatIsNewAgainAreNotAwaited) {
  OpenBoth();
  Restart();
  EXPECT_TRUE(Open(1)->initial);
  EXPECT_TRUE(absl::IsFailedPrecondition(Pull(0, 1, kPatience).status()));
  EXPECT_THAT(Pull(1, 0, kNow)->missing, ElementsAre(0));
}

TEST_F(TableThreadTest, AnotherGenerationGoesOnAndTheFormerIsStale) {
  OpenBoth();
  PushBoth(1, 1);
  EXPECT_EQ(*Push(0, 2, 1), 3u);  // of a step that never comes
  EXPECT_EQ(Open(0, /*generation=*/2)->next, 2u);
  const absl::Status stale = Push(1, 2, 1).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(stale));
  EXPECT_THAT(stale.message(), HasSubstr("generation 1 is stale, current is 2"));
  EXPECT_THAT(Open(0).status().message(), HasSubstr("generation 1 is stale, current is 2"));
  EXPECT_THAT(Pull(1, 1, kPatience).status().message(), HasSubstr("is stale"));
  EXPECT_EQ((*Pull(0, 1, kPatience, /*generation=*/2)->values)[0], -1);
}

TEST_F(TableThreadTest, OtherSettingsAreRejected) {
  OpenBoth();
  v1::TableSettings other = Settings();
  other.mutable_optimizer()->mutable_sgd()->set_learning_rate(2);
  EXPECT_TRUE(absl::IsFailedPrecondition(Open(1, 1, other).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Open(1, 2, other).status()));
  EXPECT_EQ(Open(2, 2, Settings(3))->next, 1u);
}

TEST_F(TableThreadTest, ATableThatDoesNotFitNamesJobBytesAndFlag) {
  memory_ = std::make_unique<ParameterMemory>(100);
  Start();
  const absl::Status refused = Open(0).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(refused.message(), HasSubstr("job 7: its table needs 140 bytes of memory, but only "
                                           "100 of 100 are free"));
  EXPECT_THAT(refused.message(), HasSubstr("--parameter-memory"));
}

TEST_F(TableThreadTest, AClosedTableGivesItsMemoryBack) {
  OpenBoth();
  PushBoth(1, 1);
  EXPECT_GT(memory_->taken(), 0u);
  ASSERT_TRUE(Publish(/*close=*/true).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Push(0, 2, 1).status()));
  EXPECT_EQ(memory_->taken(), 0u);
}

TEST_F(TableThreadTest, TheEndOfATableWritesItsLastState) {
  OpenBoth();
  PushBoth(1, 1);
  ASSERT_TRUE(Publish().ok());
  PushBoth(2, 1);
  EXPECT_EQ(Value(2), -2);
  table_->Stop(/*publish=*/true);
  EXPECT_EQ(store_.Find({.job = JobId(7)}, 0)->step(), 2);
}

// The ranks of generation 2 do not have gradient 2, so nobody could push it again.
TEST_F(TableThreadTest, AStateIsDurableBeforeTheNextGenerationHearsOfIt) {
  OpenBoth();
  PushBoth(1, 1);
  ASSERT_TRUE(Publish().ok());
  PushBoth(2, 1);
  EXPECT_EQ(Open(0, /*generation=*/2)->next, 3u);
  Restart();
  EXPECT_EQ(Open(0, /*generation=*/2)->next, 3u);
  EXPECT_EQ((*Pull(0, 2, kPatience, /*generation=*/2)->values)[0], -2);
}

// Three ranks go on behind equal numbers. Two that follow must not find those of the former two.
TEST_F(TableThreadTest, WhatOtherRanksGoOnFromIsDurableToo) {
  const auto settings = [](int ranks) { return Settings(ranks, v1::TABLE_MODE_ASYNC); };
  for (const int rank : {0, 1}) ASSERT_TRUE(Open(rank, 1, settings(2)).ok());
  ASSERT_TRUE(Push(0, 0, 0).ok());
  for (const uint64_t number : {1, 2, 3}) ASSERT_TRUE(Push(0, number, 1).ok());
  ASSERT_TRUE(Publish().ok());
  EXPECT_EQ(Open(0, 2, settings(3))->next, 2u);
  EXPECT_EQ(Open(0, 3, settings(2))->next, 2u);
  Restart();
  EXPECT_EQ(Open(0, 3, settings(2))->next, 2u);
}

TEST_F(TableThreadTest, AStateThatCannotBeWrittenOpensNoGeneration) {
  OpenBoth();
  ASSERT_TRUE(Publish().ok());
  PushBoth(1, 1);
  available_ = 0;
  EXPECT_TRUE(absl::IsResourceExhausted(Open(0, /*generation=*/2).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(Open(0, /*generation=*/2).status()));
  available_ = ParameterLimits::kNone;
  EXPECT_EQ(Open(0, /*generation=*/2)->next, 2u);
}

TEST_F(TableThreadTest, APublicationThatFailedDoesNotFailTheNext) {
  OpenBoth();
  ASSERT_TRUE(Publish().ok());
  PushBoth(1, 1);
  available_ = 0;
  EXPECT_TRUE(absl::IsResourceExhausted(Publish().status()));
  available_ = ParameterLimits::kNone;
  const auto published = Publish(/*close=*/true);
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->step(), 1);
}

// Its state is older than the one that generation 2 publishes, and may not come behind it.
TEST_F(TableThreadTest, APublicationOnItsWayDoesNotReachTheNextGeneration) {
  OpenBoth();
  ASSERT_TRUE(Publish().ok());
  PushBoth(1, 1);
  std::promise<void> release = HoldWrites();
  std::promise<absl::Status> closed;
  ASSERT_TRUE(table_
                  ->Publish({Generation(1), 0}, 0, /*close=*/true,
                            [&](const auto& version) { closed.set_value(version.status()); })
                  .ok());
  PushBoth(2, 1);
  std::promise<absl::StatusOr<TableThread::Opened>> opened;
  ASSERT_TRUE(table_
                  ->Open({Generation(2), 0}, Settings(),
                         [&](const auto& answer) { opened.set_value(answer); })
                  .ok());
  EXPECT_THAT(closed.get_future().get().message(),
              HasSubstr("generation 1 is stale, current is 2"));
  release.set_value();
  EXPECT_EQ(opened.get_future().get()->next, 3u);
  EXPECT_EQ(store_.Find({.job = JobId(7)}, 0)->step(), 2);
  EXPECT_EQ(store_.Find({.job = JobId(7)}, 0)->generation(), 2u);
  EXPECT_EQ(*Push(0, 3, 1, /*generation=*/2), 4u);
}

// Tables are ended by a thread that writes, so a write that waits for one is not awaited.
TEST_F(TableThreadTest, TheLastStateTakesThePlaceOfAPublicationThatWaits) {
  OpenBoth();
  ASSERT_TRUE(Publish().ok());
  PushBoth(1, 1);
  std::promise<void> release = HoldWrites();
  ASSERT_TRUE(table_->Publish({Generation(1), 0}, 0, false, [](const auto&) {}).ok());
  PushBoth(2, 1);
  table_->Stop(/*publish=*/true);
  release.set_value();
  tasks_.Stop();
  EXPECT_EQ(store_.Find({.job = JobId(7)}, 0)->step(), 2);
}

TEST_F(TableThreadTest, TheLastStateComesBehindAPublicationThatHasBegun) {
  OpenBoth();
  ASSERT_TRUE(Publish().ok());
  PushBoth(1, 1);
  std::promise<void> begun, release;
  on_write_ = [&] {
    begun.set_value();
    release.get_future().wait();
  };
  ASSERT_TRUE(table_->Publish({Generation(1), 0}, 0, false, [](const auto&) {}).ok());
  begun.get_future().wait();
  PushBoth(2, 1);
  std::thread stopper([this] { table_->Stop(/*publish=*/true); });
  release.set_value();
  stopper.join();
  EXPECT_EQ(store_.Find({.job = JobId(7)}, 0)->step(), 2);
}

TEST_F(TableThreadTest, ARefusedGenerationLeavesTheTableAsItIs) {
  memory_ = std::make_unique<ParameterMemory>(150);
  Start();
  OpenBoth();
  PushBoth(1, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(Open(0, 2, Settings(3)).status()));
  EXPECT_EQ(Value(1), -1);
  EXPECT_EQ(memory_->taken(), 140u);
  EXPECT_EQ(Open(0, /*generation=*/3)->next, 2u);
}

TEST_F(TableThreadTest, ARankHasOneStreamOfValues) {
  OpenBoth();
  {
    const auto pulled = Pull(0, 0, kPatience);
    EXPECT_THAT(Pull(0, 0, kPatience).status().message(),
                HasSubstr("values or a gradient of rank 0 are on their way"));
    EXPECT_THAT(Push(0, 1, 1).status().message(), HasSubstr("values for rank 0 are on their way"));
    EXPECT_TRUE(Pull(1, 0, kPatience).ok());
  }
  EXPECT_TRUE(Pull(0, 0, kPatience).ok());
  EXPECT_EQ(*Push(0, 1, 1), 2u);
}

TEST_F(TableThreadTest, AStepWithAGradientThatIsNotFiniteIsRefused) {
  OpenBoth();
  EXPECT_EQ(*Push(1, 1, 1), 2u);
  const absl::Status refused = Push(0, 1, std::numeric_limits<float>::quiet_NaN()).status();
  EXPECT_TRUE(absl::IsOutOfRange(refused));
  EXPECT_THAT(refused.message(),
              HasSubstr("job 7: step 1: the gradient or the loss of rank 0 is not finite"));
  EXPECT_EQ(Pull(1, 1, kPatience).status(), refused);
  EXPECT_EQ(Publish()->step(), 0);
  EXPECT_EQ(Open(0, /*generation=*/2)->next, 1u);
}

// A full queue takes no notice of the write that has ended.
TEST_F(TableThreadTest, AWriteThatEndsWhileTheQueueIsFullIsHeardOf) {
  OpenBoth();
  ASSERT_TRUE(Publish().ok());
  PushBoth(1, 1);
  std::promise<void> write = HoldWrites(), thread, held;
  std::promise<absl::StatusOr<v1::ParameterVersion>> published;
  ASSERT_TRUE(table_
                  ->Publish({Generation(1), 0}, 0, false,
                            [&](const auto& version) { published.set_value(version); })
                  .ok());
  EXPECT_EQ(Open(0)->next, 2u);  // the write has begun
  ASSERT_TRUE(table_
                  ->Begin({Generation(1), 0}, 1,
                          [&](const auto&) {
                            held.set_value();
                            thread.get_future().wait();
                          })
                  .ok());
  held.get_future().wait();
  while (table_->Begin({Generation(1), 0}, 1, [](const auto&) {}).ok()) {
  }
  write.set_value();
  std::promise<void> ended;
  ASSERT_TRUE(tasks_.Submit([&] { ended.set_value(); }).ok());
  ended.get_future().wait();
  thread.set_value();
  std::future<absl::StatusOr<v1::ParameterVersion>> answer = published.get_future();
  ASSERT_EQ(answer.wait_for(absl::ToChronoSeconds(kPatience)), std::future_status::ready);
  EXPECT_EQ(answer.get()->step(), 1);
}

// A client may give its push any request id.
TEST_F(TableThreadTest, APushOfAClientIsNotTakenForAState) {
  const SetKey key = {.job = JobId(7)};
  ASSERT_TRUE((*store_.Begin(key, {}, "table-1"))->Finish().ok());
  OpenBoth();
  PushBoth(1, 1);
  const auto published = Publish();
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->step(), 1);
  EXPECT_EQ(*store_.LatestTable(key), published->version());
}

TEST_F(TableThreadTest, APublishedVersionHasTheParametersWithoutGaps) {
  OpenBoth();
  PushBoth(1, 1);
  ASSERT_TRUE(Publish().ok());
  const auto reader = store_.Open({.job = JobId(7)}, 0);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->description().version().bytes(), 3 * sizeof(float));
  EXPECT_EQ(reader->description().version().tensors(0).name(), "w");
}

}  // namespace
}  // namespace dp::server
