#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "dp/data_parallel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/fake_gpus.h"
#include "worker/library/testing/gpu_linear_module.h"
#include "worker/library/testing/thrown.h"

// DataParallel over fake GPUs that work late and whose memory the host cannot touch.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::GpuLinearModule;
using library::LinearModule;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Floats = std::vector<float>;
using Names = std::vector<std::string>;

Tensor RowsOf(int64_t columns, Floats values) {
  const auto rows = static_cast<int64_t>(values.size()) / columns;
  return {{rows, columns}, std::move(values)};
}

Floats RandomNumbers(size_t count, int seed) {
  std::mt19937 draw(seed);
  Floats numbers(count);
  for (float& number : numbers) number = float(draw() % 2000) / 1000 - 1;
  return numbers;
}

Floats ReadFloats(const Tensor& tensor) {
  const Tensor host = tensor.to("cpu");
  const auto values = host.values<float>();
  return {values.begin(), values.end()};
}

class GpuDataParallelTest : public library::FakeGpus {
 protected:
  LinearModule Host(int64_t in, int64_t out) {
    LinearModule host(in, out);
    host.weight = RandomNumbers(in * out, 1);
    host.bias = RandomNumbers(out, 2);
    return host;
  }
  GpuLinearModule On(const std::string& device, int64_t in, int64_t out) {
    return {gpus_, Host(in, out), in, out, device};
  }
  // The message of a forward over two GPUs.
  std::string ErrorOfForward(GpuLinearModule& model) {
    return ErrorOf([&] { DataParallel(model, {.device_ids = two_}).forward({two_rows_}); }).what();
  }

  const Names two_ = {"cuda:0", "cuda:1"}, three_ = {"cuda:0", "cuda:1", "cuda:2"};
  const Tensor two_rows_ = RowsOf(1, {1, 2});
};

TEST_F(GpuDataParallelTest, SumsTheGradientsOfTheWorkedExample) {
  GpuLinearModule model = On("cuda:0", 2, 3);
  DataParallel parallel(model, {.device_ids = two_});
  const Tensor output = parallel.forward({RowsOf(2, {0.4362f, 0.4574f, 0.2052f, 0.2362f})});
  EXPECT_THAT(output.shape(), ElementsAre(2, 3));
  EXPECT_EQ(output.device(), "cuda:0");
  parallel.backward(RowsOf(3, {1, 0, 0, 0, 1, 0}));  // of the loss sum(output * labels): the labels
  EXPECT_THAT(ReadFloats(model.weight_gradient),
              ElementsAre(0.4362f, 0.4574f, 0.2052f, 0.2362f, 0, 0));
  EXPECT_THAT(ReadFloats(model.bias_gradient), ElementsAre(1, 1, 0));
}

TEST_F(GpuDataParallelTest, ThirtySamplesOnThreeGpusAreThreeTimesTen) {
  GpuLinearModule model = On("cuda:0", 2, 3);
  std::mutex mu;
  std::map<std::string, int64_t> parts;
  std::set<std::thread::id> threads;
  model.before_forward = [&](const Arguments& part) {
    const std::lock_guard lock(mu);
    const auto& tensor = std::get<Tensor>(part[0]);
    parts[tensor.device()] = tensor.shape()[0];
    threads.insert(std::this_thread::get_id());
    EXPECT_EQ("cuda:" + std::to_string(gpus_.ChosenDevice().value()), tensor.device());
  };
  DataParallel(model, {.device_ids = three_}).forward({RowsOf(2, RandomNumbers(60, 3))});
  EXPECT_EQ(parts,
            (std::map<std::string, int64_t>{{"cuda:0", 10}, {"cuda:1", 10}, {"cuda:2", 10}}));
  EXPECT_EQ(threads.size(), 3);
}

TEST_F(GpuDataParallelTest, HasTheBitsOfAsManyCpus) {
  LinearModule host = Host(4, 3);
  GpuLinearModule model = On("cuda:0", 4, 3);
  DataParallel on_cpus(host, {.device_ids = {"cpu:0", "cpu:1", "cpu:2"}}),
      on_gpus(model, {.device_ids = three_});
  for (int step = 0; step < 3; ++step) {  // later steps accumulate
    const Tensor inputs = RowsOf(4, RandomNumbers(4 * 23, 5 + step)),
                 gradient = RowsOf(3, RandomNumbers(3 * 23, 50 + step));
    EXPECT_EQ(ReadFloats(on_gpus.forward({inputs})), ReadFloats(on_cpus.forward({inputs})));
    on_cpus.backward(gradient);
    on_gpus.backward(gradient);
  }
  EXPECT_EQ(ReadFloats(model.weight_gradient), host.weight_gradient);
  EXPECT_EQ(ReadFloats(model.bias_gradient), host.bias_gradient);
}

TEST_F(GpuDataParallelTest, BatchAndGradientMayLieInAnyMemory) {
  const Tensor rows = RowsOf(1, {1, 2, 3}), ones = RowsOf(1, {1, 1, 1});
  for (const char* device : {"cpu", "cuda:0", "cuda:1", "cuda:2"}) {
    GpuLinearModule model = On("cuda:0", 1, 1);
    DataParallel parallel(model, {.device_ids = two_});
    const Tensor inputs = rows.to(device), gradient = ones.to(device);
    parallel.forward({inputs});
    parallel.backward(gradient);
    EXPECT_THAT(ReadFloats(model.weight_gradient), ElementsAre(6)) << device;
  }
}

TEST_F(GpuDataParallelTest, AnUpdateThatTheHostDidNotAwaitIsInTheNextReplicas) {
  GpuLinearModule model = On("cuda:0", 1, 1);
  DataParallel parallel(model, {.device_ids = two_, .output_device = "cpu"});
  const float bias = Host(1, 1).bias[0];
  for (const float weight : {10.0f, 20.0f}) {
    model.SetWeight({weight});
    EXPECT_THAT(ReadFloats(parallel.forward({two_rows_})),
                ElementsAre(bias + weight, bias + 2 * weight));
    parallel.backward(two_rows_);
  }
}

// Its output is its weight, whatever the input. Copies itself as a program does by cudaMemcpyAsync.
class Echo : public ReplicableModule {
 public:
  Echo(engine::FakeCuda& gpus, const std::string& device)
      : gpus_(gpus), weight_(zeros({1}, DataType::kFloat32, device)) {}
  std::vector<Parameter> parameters() override {
    return {{"weight", {1}, weight_.elements(), weight_.elements()}};
  }
  std::unique_ptr<ReplicableModule> replicate() const override { return nullptr; }
  std::unique_ptr<ReplicableModule> replicate_on(const std::string& device) const override {
    auto copy = std::make_unique<Echo>(gpus_, device);
    const Elements from = weight_.elements();
    EXPECT_TRUE(gpus_
                    .CopyOnStream(static_cast<const uint8_t*>(from.data), from.bytes,
                                  static_cast<uint8_t*>(copy->weight_.elements().data), nullptr)
                    .ok());
    return copy;
  }
  Tensor forward(const Arguments&) override { return weight_; }
  void backward(const Tensor&) override {}
  void Set(float value) {
    gpus_.Enqueue(nullptr,
                  [to = static_cast<float*>(weight_.elements().data), value] { *to = value; });
  }

 private:
  engine::FakeCuda& gpus_;
  Tensor weight_;
};

TEST_F(GpuDataParallelTest, TheModulesGpuIsAwaitedBeforeItIsCopied) {
  Echo model(gpus_, "cuda:0");
  model.Set(7);
  DataParallel parallel(model, {.device_ids = two_});
  EXPECT_THAT(ReadFloats(parallel.forward({std::any(1)})), ElementsAre(7, 7));
}

TEST_F(GpuDataParallelTest, OutputsAreGatheredOnTheOutputDevice) {
  for (const char* device : {"cuda:1", "cuda:2", "cpu"}) {
    GpuLinearModule model = On("cuda:0", 1, 1);
    DataParallel parallel(model, {.device_ids = two_, .output_device = device});
    EXPECT_EQ(parallel.output_device(), device);
    const Tensor output = parallel.forward({two_rows_});
    EXPECT_EQ(output.device(), device);
    EXPECT_EQ(output.to("cpu").shape()[0], 2);
    parallel.backward(output);
  }
}

TEST_F(GpuDataParallelTest, ABatchThatIsTooSmallLeavesGpusIdle) {
  GpuLinearModule model = On("cuda:0", 1, 1);
  std::atomic<int> runs = 0;
  model.before_forward = [&](const Arguments&) { ++runs; };
  DataParallel parallel(model, {.device_ids = three_});
  ::testing::internal::CaptureStderr();
  parallel.forward({two_rows_});
  parallel.backward(two_rows_);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("event=devices_idle parts=2 devices=3 idle=cuda:2"));
  EXPECT_EQ(runs, 2);
  EXPECT_THAT(ReadFloats(model.bias_gradient), ElementsAre(3));
}

TEST_F(GpuDataParallelTest, OneGpuTakesTheBatchToItsMemory) {
  GpuLinearModule model = On("cuda:2", 1, 1);
  DataParallel parallel(model, {.device_ids = {"cuda:2"}});
  EXPECT_EQ(parallel.forward({two_rows_}).device(), "cuda:2");
  parallel.backward(two_rows_);
  EXPECT_THAT(ReadFloats(model.weight_gradient), ElementsAre(5));
}

TEST_F(GpuDataParallelTest, AModuleOnAGpuRunsOnAllByDefaultItsOwnFirst) {
  GpuLinearModule model = On("cuda:1", 1, 1);
  DataParallel parallel(model);
  EXPECT_THAT(parallel.device_ids(), ElementsAre("cuda:1", "cuda:0", "cuda:2"));
  EXPECT_EQ(parallel.output_device(), "cuda:1");
  LinearModule host(1, 1);
  EXPECT_THAT(DataParallel(host).device_ids(), ElementsAre());
}

TEST_F(GpuDataParallelTest, CudaIsTheGpuOfTheCallingThread) {
  EXPECT_TRUE(gpus_.UseDevice(2).ok());
  GpuLinearModule model = On("cuda:2", 1, 1);
  DataParallel parallel(model, {.device_ids = {"cuda", "cuda:0"}});
  EXPECT_THAT(parallel.device_ids(), ElementsAre("cuda:2", "cuda:0"));
  parallel.forward({two_rows_});
  parallel.backward(two_rows_);
  EXPECT_EQ(gpus_.ChosenDevice().value(), 2);
  EXPECT_THAT(ErrorOf([&] {
                DataParallel(model, {.device_ids = {"cuda", "cuda:2"}});
              }).what(),
              HasSubstr("device 'cuda:2' is given twice"));
}

TEST_F(GpuDataParallelTest, DevicesThatCannotBeAreNamed) {
  GpuLinearModule model = On("cuda:0", 1, 1);
  const auto said = [&](const DataParallelOptions& options) {
    return std::string(ErrorOf([&] { DataParallel(model, options); }).what());
  };
  EXPECT_EQ(said({.device_ids = {"cuda:0", "cuda:7"}}),
            "DataParallel: device 'cuda:7' does not exist: this process sees 3 GPUs, from cuda:0 "
            "on; nvidia-smi and CUDA_VISIBLE_DEVICES list them");
  EXPECT_EQ(said({.device_ids = {"cuda:0", "cpu:1"}}),
            "DataParallel: devices 'cuda:0' and 'cpu:1' are of two kinds, and replicas are alike; "
            "give CPUs only, or GPUs only");
  EXPECT_THAT(said({.device_ids = two_, .output_device = "cuda:3"}), HasSubstr("'cuda:3'"));
}

TEST_F(GpuDataParallelTest, AModuleThatIsNotOnTheFirstGpuIsNamed) {
  LinearModule host(1, 1);
  EXPECT_STREQ(
      ErrorOf([&] { DataParallel(host, {.device_ids = two_}); }).what(),
      "DataParallel: the module: parameter 'weight' lies in the host's memory, and the device is "
      "cuda:0; move the module to the first of device_ids, or give that of the module first");
  GpuLinearModule other = On("cuda:1", 1, 1);
  EXPECT_THAT(ErrorOf([&] { DataParallel(other, {.device_ids = two_}); }).what(),
              HasSubstr("parameter 'weight' lies on cuda:1, and the device is cuda:0; "));
  EXPECT_THAT(ErrorOf([&] {
                DataParallel(other, {.device_ids = {"cpu:0", "cpu:1"}});
              }).what(),
              HasSubstr("parameter 'weight' lies on cuda:1, and the device is cpu:0; "));
  GpuLinearModule apart = On("cuda:0", 1, 1);
  apart.bias_gradient = apart.bias_gradient.to("cuda:2");
  EXPECT_THAT(ErrorOf([&] { DataParallel(apart, {.device_ids = two_}); }).what(),
              HasSubstr("the gradient of parameter 'bias' lies on cuda:2, and"));
}

TEST_F(GpuDataParallelTest, AReplicaThatIsNotOnItsGpuIsNamed) {
  GpuLinearModule model = On("cuda:0", 1, 1);
  model.after_replicate = [&](GpuLinearModule& copy) {
    EXPECT_EQ(gpus_.ChosenDevice().value(), 1);
    copy.bias = copy.bias.to("cuda:0");
  };
  EXPECT_EQ(ErrorOfForward(model),
            "replica on device cuda:1: parameter 'bias' lies on cuda:0, and the device is cuda:1; "
            "let replicate_on() copy it to its device");
}

TEST_F(GpuDataParallelTest, AModuleWithoutReplicateOnIsNamed) {
  class Plain : public GpuLinearModule {
   public:
    using GpuLinearModule::GpuLinearModule;
    std::unique_ptr<ReplicableModule> replicate_on(const std::string& device) const override {
      return ReplicableModule::replicate_on(device);
    }
  };
  Plain model(gpus_, Host(1, 1), 1, 1, "cuda:0");
  DataParallel parallel(model, {.device_ids = two_});
  const DistError error = ErrorOf([&] { parallel.forward({two_rows_}); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_STREQ(error.what(),
               "replica 1 on device cuda:1: replicate: the module has no replicate_on(\"cuda:1\"); "
               "override replicate_on, which copies the module to another GPU");
}

TEST_F(GpuDataParallelTest, FailuresNameTheDevice) {
  GpuLinearModule model = On("cuda:0", 1, 1);
  model.before_forward = [](const Arguments& part) {
    if (std::get<Tensor>(part[0]).device() == "cuda:1") throw std::runtime_error("no such row");
  };
  EXPECT_EQ(ErrorOfForward(model), "replica 1 on device cuda:1: forward: no such row");
  model.before_forward = [&](const Arguments&) {
    gpus_.FailNext(1, absl::InternalError("CUDA: an illegal memory access"));
  };
  EXPECT_EQ(ErrorOfForward(model),
            "replica 1 on device cuda:1: forward: CUDA: an illegal memory access");
}

TEST_F(GpuDataParallelTest, AGpuWithoutRoomIsNamed) {
  GpuLinearModule model = On("cuda:0", 1, 1);
  DataParallel parallel(model, {.device_ids = two_});
  model.before_forward = [&](const Arguments&) { gpus_.LimitRoom(0); };
  const DistError error = ErrorOf([&] { parallel.forward({two_rows_}); });
  EXPECT_EQ(error.kind(), ErrorKind::kLimit);
  EXPECT_THAT(error.what(),
              StartsWith("replica 0 on device cuda:0: forward: Tensor: GPU 0 has no room for"));
}

constexpr size_t kInFirstPiece = size_t{2} << 20;  // 4 MiB

// A parameter that is larger than the room for copies of gradients, in a type of 16 bits.
class LargeModule : public ReplicableModule {
 public:
  LargeModule(engine::FakeKernels& gpus, const std::string& device, int64_t size)
      : gpus_(gpus),
        values_(zeros({size}, DataType::kBfloat16, device)),
        gradient_(zeros({size}, DataType::kBfloat16, device)) {}
  std::vector<Parameter> parameters() override {
    return {{"values", values_.shape(), values_.elements(), gradient_.elements()}};
  }
  std::unique_ptr<ReplicableModule> replicate() const override { return nullptr; }
  std::unique_ptr<ReplicableModule> replicate_on(const std::string& device) const override {
    return std::make_unique<LargeModule>(gpus_, device, values_.shape()[0]);
  }
  Tensor forward(const Arguments& inputs) override { return std::get<Tensor>(inputs[0]); }
  // 256 + 1 is 256 in this type, and 256 + 1 + 1 is not if it is rounded once. The elements behind
  // the first piece have another sum.
  void backward(const Tensor& output_gradient) override {
    const bool first = output_gradient.device() == "cuda:0";
    gpus_.Enqueue(nullptr, [to = static_cast<Bfloat16*>(gradient_.elements().data),
                            count = gradient_.count(), first] {
      std::fill(to, to + count, Bfloat16(first ? 256.0f : 3.0f));
      if (!first) std::fill(to, to + kInFirstPiece, Bfloat16(1.0f));
    });
  }
  Tensor gradient() const { return gradient_.to("cpu"); }

 private:
  engine::FakeKernels& gpus_;
  Tensor values_, gradient_;
};

TEST_F(GpuDataParallelTest, LargeGradientsAreAddedInPiecesAndRoundedOnce) {
  LargeModule model(gpus_, "cuda:0", kInFirstPiece + 5);
  DataParallel parallel(model, {.device_ids = three_});
  parallel.forward({RowsOf(1, {1, 2, 3})});
  parallel.backward(RowsOf(1, {1, 2, 3}));
  const Tensor gradient = model.gradient();
  const auto values = gradient.values<Bfloat16>();
  const auto is = [](float sum) { return [sum](Bfloat16 value) { return float(value) == sum; }; };
  EXPECT_TRUE(std::all_of(values.begin(), values.begin() + kInFirstPiece, is(258)));
  EXPECT_TRUE(std::all_of(values.begin() + kInFirstPiece, values.end(), is(262)));
}

TEST_F(GpuDataParallelTest, TheStepsWorkByThemselves) {
  GpuLinearModule model = On("cuda:0", 2, 2);
  const std::vector<Arguments> parts = scatter({RowsOf(2, RandomNumbers(12, 4))}, three_);
  model.SetWeight({1, 2, 3, 4});  // replicate awaits it
  const auto replicas = replicate(model, three_);
  std::vector<ReplicableModule*> modules;
  for (const auto& replica : replicas) modules.push_back(replica.get());
  const Tensor output = gather(parallel_apply(modules, parts, three_), "cuda:2");
  LinearModule host = Host(2, 2);
  host.weight = {1, 2, 3, 4};
  const auto expected = host.forward({RowsOf(2, RandomNumbers(12, 4))});
  EXPECT_EQ(output.device(), "cuda:2");
  EXPECT_EQ(ReadFloats(output), ReadFloats(expected));
}

}  // namespace
}  // namespace dp::distributed
