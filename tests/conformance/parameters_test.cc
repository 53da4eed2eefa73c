// The client's half of the parameter service over the coordinator's.

#include "client/parameters.h"

#include <string>
#include <vector>

#include "base/limits.h"
#include "client/parameter_table.h"
#include "gtest/gtest.h"
#include "tests/conformance/coordinator_with_job.h"

namespace dp::client {
namespace {

TEST(ParametersConformanceTest, TensorsComeBackAsTheyWerePushed) {
  CoordinatorWithJob coordinator;
  Connection connection(coordinator.address(), Credentials::Insecure());
  Pause pause;
  Parameters parameters(connection, pause);
  const std::string large(2 * kParameterChunkBytes + 12, 'x'), small = "abcdefgh";
  const std::vector<TensorView> tensors = {
      {"a.weight", "F32", {static_cast<int64_t>(large.size() / 4)}, large},
      {"empty", "F32", {0, 3}, ""},
      {"b.bias", "I64", {}, small}};
  const ParameterSet set = {.job = coordinator.job().value()};
  const auto pushed = parameters.Push(set, tensors, {.step = 5});
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  const auto pulled = parameters.Pull(set);
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(pulled->version.step(), 5);
  EXPECT_EQ(pulled->version.crc32c(), pushed->crc32c());
  ASSERT_EQ(pulled->version.tensors_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pulled->version.tensors(i).name(), tensors[i].name);
    EXPECT_TRUE(pulled->DataOf(i) == tensors[i].data) << i;
  }
  EXPECT_EQ(parameters.List()->size(), 1u);
  EXPECT_EQ(parameters.Describe(set, 0)->tensors_size(), 3);
  EXPECT_GT(*parameters.Remove(set, 0), large.size());
  EXPECT_TRUE(absl::IsNotFound(parameters.Versions(set).status()));
}

TEST(ParametersConformanceTest, AVersionOfNoTensorsIsOneToo) {
  CoordinatorWithJob coordinator;
  Connection connection(coordinator.address(), Credentials::Insecure());
  Pause pause;
  Parameters parameters(connection, pause);
  ASSERT_TRUE(parameters.Push({.name = "none"}, {}).ok());
  const auto pulled = parameters.Pull({.name = "none"});
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_TRUE(pulled->data.empty());
}

// A table of one rank, larger than a chunk, with plain SGD at a rate of 1.
v1::TableSettings LargeTable() {
  constexpr int64_t kSize = 300'000;
  v1::TableSettings settings;
  settings.set_mode(v1::TABLE_MODE_SYNC);
  settings.set_ranks(1);
  settings.set_publish_every(3);
  settings.set_size(kSize);
  settings.set_tail(2);
  v1::TableParameter* const parameter = settings.add_parameters();
  parameter->set_name("w");
  parameter->add_shape(kSize);
  parameter->set_size(kSize);
  parameter->set_learning_rate_factor(1);
  settings.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  settings.mutable_schedule()->set_steps_of_epoch(10);
  settings.mutable_schedule()->set_steps_total(100);
  return settings;
}

TEST(ParametersConformanceTest, ATableIsTrainedAndPublished) {
  CoordinatorWithJob coordinator;
  Connection connection(coordinator.address(), Credentials::Insecure());
  Pause pause;
  const v1::TableSettings settings = LargeTable();
  const uint64_t job = coordinator.job().value();
  ParameterTable table({.job = job, .generation = 1, .settings = settings}, connection, pause);
  std::vector<float> values(static_cast<size_t>(settings.size()), 10);
  ASSERT_TRUE(table.Open()->initial());
  ASSERT_TRUE(table.Begin(values).ok());
  for (uint64_t number = 1; number <= 10; ++number) {
    const std::vector<float> gradient(values.size() + 2, 0.5f);
    const auto state = table.Step(number, gradient, {.samples = 7}, absl::MakeSpan(values));
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(state->steps(), static_cast<int64_t>(number));
    EXPECT_EQ(values.back(), 10 - 0.5f * static_cast<float>(number));
    EXPECT_EQ(state->samples(), 7);
    EXPECT_LE(table.kept(), 9u);
  }
  const auto published = table.Publish(/*close=*/true);
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->step(), 10);
  const auto pulled = Parameters(connection, pause).Pull({.job = job});
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(pulled->DataOf(0), absl::string_view(reinterpret_cast<const char*>(values.data()),
                                                 values.size() * sizeof(float)));
}

TEST(ParametersConformanceTest, AClosedTableIsOpenedAgainWhereItWas) {
  CoordinatorWithJob coordinator;
  Connection connection(coordinator.address(), Credentials::Insecure());
  Pause pause;
  const v1::TableSettings settings = LargeTable();
  ParameterTable table({.job = coordinator.job().value(), .generation = 1, .settings = settings},
                       connection, pause);
  std::vector<float> values(static_cast<size_t>(settings.size()));
  ASSERT_TRUE(table.Open().ok());
  ASSERT_TRUE(table.Begin(values).ok());
  const std::vector<float> gradient(values.size() + 2, 1);
  ASSERT_TRUE(table.Step(1, gradient, {}, absl::MakeSpan(values)).ok());
  ASSERT_TRUE(table.Publish(/*close=*/true).ok());
  const auto state = table.Step(2, gradient, {}, absl::MakeSpan(values));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(values[0], -2);
  for (const bool close : {true, false}) {
    const auto published = table.Publish(close);
    ASSERT_TRUE(published.ok()) << published.status();
    EXPECT_EQ(published->step(), 2);
  }
}

TEST(ParametersConformanceTest, AStaleGenerationIsRejectedWithBothNumbers) {
  CoordinatorWithJob coordinator;
  Connection connection(coordinator.address(), Credentials::Insecure());
  Pause pause;
  ParameterTable table(
      {.job = coordinator.job().value(), .generation = 3, .settings = LargeTable()}, connection,
      pause);
  const absl::Status refused = table.Open().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_EQ(refused.message(), "job 1: generation 3 has not begun, current is 1");
}

}  // namespace
}  // namespace dp::client
