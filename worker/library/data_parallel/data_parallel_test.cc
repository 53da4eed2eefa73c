#include "dp/data_parallel.h"

#include <atomic>
#include <latch>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "dp/distributed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/linear_module.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::LinearModule;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;

const std::vector<std::string> kTwo = {"cpu:0", "cpu:1"};
const std::vector<std::string> kThree = {"cpu:0", "cpu:1", "cpu:2"};

Tensor Rows(int64_t columns, std::vector<float> values) {
  const auto rows = static_cast<int64_t>(values.size()) / columns;
  return {{rows, columns}, std::move(values)};
}

std::vector<float> Numbers(size_t count, int seed) {
  std::mt19937 draw(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = float(draw() % 2000) / 1000 - 1;
  return numbers;
}

LinearModule ModelOf(int64_t in, int64_t out) {
  LinearModule model(in, out);
  model.weight = Numbers(in * out, 1);
  model.bias = Numbers(out, 2);
  return model;
}

TEST(DataParallelTest, SumsTheGradientsOfTheWorkedExample) {
  LinearModule model = ModelOf(2, 3);
  DataParallel parallel(model, {.device_ids = kTwo});
  const Tensor inputs = Rows(2, {0.4362f, 0.4574f, 0.2052f, 0.2362f});
  std::atomic<int> on_two = 0;
  model.before_forward = [&](const Arguments& part) {
    if (std::get<Tensor>(part[0]).shape()[0] == 1) ++on_two;
  };
  const Tensor output = parallel.forward({inputs});
  EXPECT_EQ(on_two, 2);
  EXPECT_THAT(output.shape(), ElementsAre(2, 3));
  // The loss is the sum of output * labels, so that its gradient by the output is the labels.
  parallel.backward(Rows(3, {1, 0, 0, 0, 1, 0}));
  EXPECT_THAT(model.weight_gradient, ElementsAre(0.4362f, 0.4574f, 0.2052f, 0.2362f, 0, 0));
  EXPECT_THAT(model.bias_gradient, ElementsAre(1, 1, 0));
}

TEST(DataParallelTest, ThirtySamplesOnThreeDevicesAreThreeTimesTen) {
  LinearModule model = ModelOf(2, 3);
  std::mutex mu;
  std::vector<int64_t> parts;
  std::set<std::thread::id> threads;
  model.before_forward = [&](const Arguments& part) {
    const std::lock_guard lock(mu);
    parts.push_back(std::get<Tensor>(part[0]).shape()[0]);
    threads.insert(std::this_thread::get_id());
  };
  DataParallel parallel(model, {.device_ids = kThree});
  parallel.forward({Rows(2, Numbers(60, 3))});
  EXPECT_THAT(parts, ElementsAre(10, 10, 10));
  EXPECT_EQ(threads.size(), 3);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(DataParallelTest, EqualsOneDeviceOnTheWholeBatch) {
  LinearModule whole = ModelOf(4, 3), model = ModelOf(4, 3);
  const Tensor inputs = Rows(4, Numbers(4 * 23, 5)), gradient = Rows(3, Numbers(3 * 23, 6));
  DataParallel parallel(model, {.device_ids = kThree});
  for (int step = 0; step < 2; ++step) {  // the second accumulates
    const Tensor expected = whole.forward({inputs}), output = parallel.forward({inputs});
    EXPECT_THAT(output.values<float>(), Pointwise(FloatEq(), expected.values<float>()));
    whole.backward(gradient);
    parallel.backward(gradient);
  }
  for (size_t i = 0; i < whole.weight.size(); ++i)
    EXPECT_NEAR(model.weight_gradient[i], whole.weight_gradient[i], 1e-5);
  EXPECT_EQ(model.weight, whole.weight);
}

TEST(DataParallelTest, TheSumHasTheBitsOfAnAllReduce) {
  const Tensor inputs = Rows(4, Numbers(4 * 30, 7)), gradient = Rows(3, Numbers(3 * 30, 8));
  LinearModule model = ModelOf(4, 3);
  DataParallel parallel(model, {.device_ids = kThree});
  parallel.forward({inputs});
  parallel.backward(gradient);
  const std::vector<Arguments> parts = scatter({inputs}, kThree),
                               seeds = scatter({gradient}, kThree);
  library::OnRanks(3, "auto", [&](const ProcessGroup& group) {
    LinearModule rank = ModelOf(4, 3);
    rank.forward(parts[group.rank()]);
    rank.backward(std::get<Tensor>(seeds[group.rank()][0]));
    all_reduce(rank.weight_gradient, ReduceOp::kSum, group);
    EXPECT_EQ(rank.weight_gradient, model.weight_gradient);
  });
}

TEST(DataParallelTest, EachForwardCopiesTheModuleAsItIs) {
  LinearModule model(1, 1);
  model.weight = {1};
  DataParallel parallel(model, {.device_ids = kTwo});
  EXPECT_THAT(parallel.forward({Rows(1, {1, 2})}).values<float>(), ElementsAre(1, 2));
  parallel.backward(Rows(1, {1, 1}));
  model.weight = {10};
  EXPECT_THAT(parallel.forward({Rows(1, {1, 2})}).values<float>(), ElementsAre(10, 20));
  model.bias = {5};  // without a backward between
  EXPECT_THAT(parallel.forward({Rows(1, {1, 2})}).values<float>(), ElementsAre(15, 25));
}

TEST(DataParallelTest, OutputsAreOnTheFirstDeviceUnlessAnotherIsNamed) {
  const DataParallelOptions options;
  EXPECT_THAT(options.device_ids, IsEmpty());
  EXPECT_EQ(options.output_device, "");
  EXPECT_EQ(options.dim, 0);
  LinearModule model = ModelOf(1, 1);
  EXPECT_EQ(DataParallel(model, {.device_ids = {"cpu:2", "cpu:1"}}).output_device(), "cpu:2");
  DataParallel named(model, {.device_ids = kTwo, .output_device = "cpu:1"});
  EXPECT_EQ(named.output_device(), "cpu:1");
  EXPECT_THAT(named.device_ids(), ElementsAre("cpu:0", "cpu:1"));
}

TEST(DataParallelTest, OtherArgumentsGoToEveryDevice) {
  LinearModule model = ModelOf(1, 1);
  std::atomic<int> right = 0;
  model.before_forward = [&](const Arguments& part) {
    const auto whole = std::any_cast<Tensor>(std::get<std::any>(part.at(1)));
    if (whole.count() == 2 && std::any_cast<float>(std::get<std::any>(part.at(2))) == 0.5f) ++right;
  };
  DataParallel parallel(model, {.device_ids = kTwo});
  parallel.forward({Rows(1, {1, 2, 3}), std::any(Rows(1, {7, 8})), 0.5f});
  EXPECT_EQ(right, 2);
}

// Sums each column of [rows, samples], as a model whose samples are in dimension 1.
class ColumnSum : public ReplicableModule {
 public:
  std::vector<Parameter> parameters() override { return {}; }
  std::unique_ptr<ReplicableModule> replicate() const override {
    return std::make_unique<ColumnSum>(*this);
  }
  Tensor forward(const Arguments& inputs) override {
    const auto& input = std::get<Tensor>(inputs[0]);
    const int64_t samples = input.shape()[1];
    std::vector<float> sums(samples);
    for (size_t i = 0; i < input.count(); ++i) sums[i % samples] += input.values<float>()[i];
    return {{1, samples}, sums};
  }
  void backward(const Tensor&) override {}
};

TEST(DataParallelTest, SplitsAndJoinsAlongAnotherDimension) {
  ColumnSum model;
  DataParallel parallel(model, {.device_ids = kTwo, .dim = 1});
  const Tensor output = parallel.forward({Rows(3, {1, 2, 3, 10, 20, 30})});
  EXPECT_THAT(output.shape(), ElementsAre(1, 3));
  EXPECT_THAT(output.values<float>(), ElementsAre(11, 22, 33));
}

// The loss of its samples, a scalar: the weight times their sum.
class Loss : public ReplicableModule {
 public:
  std::vector<Parameter> parameters() override { return {{"w", {1}, weight, gradient}}; }
  std::unique_ptr<ReplicableModule> replicate() const override {
    return std::make_unique<Loss>(*this);
  }
  Tensor forward(const Arguments& inputs) override {
    const auto values = std::get<Tensor>(inputs[0]).values<float>();
    sum = std::accumulate(values.begin(), values.end(), 0.0f);
    return {{}, std::vector<float>{weight[0] * sum}};
  }
  void backward(const Tensor& output_gradient) override {
    EXPECT_TRUE(output_gradient.shape().empty());
    gradient[0] += output_gradient.values<float>()[0] * sum;
  }
  std::vector<float> weight = {2}, gradient = {0};
  float sum = 0;
};

TEST(DataParallelTest, ScalarLossesBecomeAVector) {
  Loss model;
  DataParallel parallel(model, {.device_ids = kTwo});
  const Tensor losses = parallel.forward({Rows(1, {1, 2, 3})});
  EXPECT_THAT(losses.shape(), ElementsAre(2));
  EXPECT_THAT(losses.values<float>(), ElementsAre(6, 6));
  parallel.backward(Tensor({2}, std::vector<float>{1, 10}));
  EXPECT_THAT(model.gradient, ElementsAre(33));
}

TEST(DataParallelTest, ReplicasBeginWithoutTheGradientsOfTheModule) {
  LinearModule model = ModelOf(1, 1);
  model.weight_gradient = {100};
  DataParallel parallel(model, {.device_ids = kTwo});
  parallel.forward({Rows(1, {1, 2})});
  parallel.backward(Rows(1, {1, 1}));
  EXPECT_THAT(model.weight_gradient, ElementsAre(103));
}

TEST(DataParallelTest, BuffersKeepWhatTheFirstDeviceChanged) {
  LinearModule model = ModelOf(1, 1);
  DataParallel parallel(model, {.device_ids = kTwo});
  parallel.forward({Rows(1, {1, 2, 3})});
  EXPECT_THAT(model.seen, ElementsAre(2));
  parallel.forward({Rows(1, {1, 2, 3})});
  EXPECT_THAT(model.seen, ElementsAre(4));
}

TEST(DataParallelTest, DevicesWithoutAPartAreNamedOnce) {
  LinearModule model = ModelOf(1, 1);
  std::atomic<int> runs = 0;
  model.before_forward = [&](const Arguments&) { ++runs; };
  DataParallel parallel(model, {.device_ids = kThree});
  ::testing::internal::CaptureStderr();
  for (int step = 0; step < 2; ++step) {
    parallel.forward({Rows(1, {1, 2})});
    parallel.backward(Rows(1, {1, 1}));
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(runs, 4);
  EXPECT_THAT(model.bias_gradient, ElementsAre(4));
  EXPECT_THAT(log, HasSubstr("event=devices_idle parts=2 devices=3 idle=cpu:2"));
  EXPECT_EQ(log.find("devices_idle"), log.rfind("devices_idle"));
}

TEST(DataParallelTest, WithoutDevicesTheModuleRunsAsItIs) {
  for (const std::vector<std::string>& devices : {std::vector<std::string>{}, {"cpu:4"}}) {
    LinearModule model = ModelOf(1, 1);
    std::thread::id thread;
    model.before_forward = [&](const Arguments&) { thread = std::this_thread::get_id(); };
    DataParallel parallel(model, {.device_ids = devices});
    EXPECT_THAT(parallel.forward({Rows(1, {1, 2, 3})}).shape(), ElementsAre(3, 1));
    parallel.backward(Rows(1, {1, 1, 1}));
    EXPECT_EQ(thread, std::this_thread::get_id());
    EXPECT_THAT(model.weight_gradient, ElementsAre(6));
    EXPECT_EQ(parallel.device_ids(), devices);
    EXPECT_EQ(parallel.output_device(), devices.empty() ? "" : "cpu:4");
  }
}

TEST(DataParallelTest, TheStepsWorkByThemselves) {
  const LinearModule model = ModelOf(2, 2);
  const std::vector<Arguments> parts = scatter({Rows(2, Numbers(10, 4))}, kThree);
  const auto replicas = replicate(model, kThree);
  std::vector<ReplicableModule*> modules;
  for (const auto& replica : replicas) modules.push_back(replica.get());
  const std::vector<Tensor> outputs = parallel_apply(modules, parts, kThree);
  const Tensor output = gather(outputs, "cpu:0");
  LinearModule whole = model;
  EXPECT_THAT(output.values<float>(),
              Pointwise(FloatEq(), whole.forward({Rows(2, Numbers(10, 4))}).values<float>()));
  EXPECT_EQ(ErrorOf([&] { parallel_apply(modules, parts, kTwo); }).kind(),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(ErrorOf([&] { gather(outputs, "tpu:0"); }).kind(), ErrorKind::kUnsupported);
}

TEST(DataParallelTest, ReplicasRunAtOnce) {
  LinearModule model = ModelOf(1, 1);
  std::latch both(2);
  model.before_forward = [&](const Arguments&) { both.arrive_and_wait(); };
  DataParallel parallel(model, {.device_ids = kTwo});
  EXPECT_EQ(parallel.forward({Rows(1, {1, 2})}).count(), 2);
}

}  // namespace
}  // namespace dp::distributed
