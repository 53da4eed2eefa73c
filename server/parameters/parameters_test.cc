#include "server/parameters/parameters.h"

#include <chrono>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "base/testing/scratch_dir.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

// The table of job 7, with one rank and one value.
class ParametersTest : public ::testing::Test {
 protected:
  static constexpr TableThread::From kRank0 = {Generation(1), 0};

  void SetUp() override {
    table_ = *parameters_.tables.Open(JobId(7));
    v1::TableSettings settings;
    settings.set_mode(v1::TABLE_MODE_SYNC);
    settings.set_ranks(1);
    settings.set_publish_every(100);
    settings.set_size(1);
    v1::TableParameter* const parameter = settings.add_parameters();
    parameter->set_name("w");
    parameter->set_size(1);
    parameter->set_learning_rate_factor(1);
    settings.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
    settings.mutable_schedule()->set_steps_of_epoch(10);
    settings.mutable_schedule()->set_steps_total(100);
    ASSERT_TRUE(Await<TableThread::Opened>(
        [&](auto done) { return table_->Open(kRank0, settings, std::move(done)); }));
    ASSERT_TRUE(Push(0) && Publish(0) && Push(1));
    parameters_.store.Await({.job = JobId(7)}, /*since=*/1, [this] { ++versions_; });
  }
  void TearDown() override {
    table_.reset();
    parameters_.tables.Stop();
    parameters_.Stop();
  }

  // Whether the method's answer is one, which comes soon.
  template <typename Answer, typename Method>
  bool Await(Method method) {
    const auto answer = std::make_shared<std::promise<bool>>();
    const absl::Status begun =
        method([answer](const absl::StatusOr<Answer>& got) { answer->set_value(got.ok()); });
    auto future = answer->get_future();
    return begun.ok() && future.wait_for(std::chrono::seconds(30)) == std::future_status::ready &&
           future.get();
  }

  bool Push(uint64_t number) {
    return Await<uint64_t>(
        [&](auto done) { return table_->Push(kRank0, number, {1}, {}, std::move(done)); });
  }
  bool Publish(uint64_t number) {
    return Await<v1::ParameterVersion>([&](auto done) {
      return table_->Publish(kRank0, number, /*close=*/false, std::move(done));
    });
  }

  const ScratchDir scratch_;
  Parameters parameters_{scratch_.path() / "parameters"};
  std::shared_ptr<TableThread> table_;
  int versions_ = 0;  // that became known after the first state
};

TEST_F(ParametersTest, StatesAreWrittenBesideTheStreams) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  for (int i = 0; i < Parameters::kThreads; ++i) {
    ASSERT_TRUE(parameters_.threads.Submit([ended] { ended.wait(); }).ok());
  }
  EXPECT_TRUE(Publish(1));
  end.set_value();
}

TEST_F(ParametersTest, AJobThatIsOverLeavesItsLastState) {
  ASSERT_TRUE(parameters_.Close({JobId(7)}).ok());
  parameters_.Stop();
  EXPECT_EQ(versions_, 1);
}

TEST_F(ParametersTest, AJobThatIsRemovedWritesNoState) {
  ASSERT_TRUE(parameters_.Drop({JobId(7)}).ok());
  parameters_.Stop();
  EXPECT_EQ(versions_, 0);
  EXPECT_TRUE(parameters_.store.jobs().empty());
}

}  // namespace
}  // namespace dp::server
