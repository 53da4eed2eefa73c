#include <memory>
#include <string>
#include <vector>

#include "dp/data_parallel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/fake_gpus.h"

// The order of DataParallel's work on GPUs and that of replicas, whose streams wait for no other.

namespace dp::distributed {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> kBothGpus = {"cuda:0", "cuda:1"};

// Checks in each call that its GPU has nothing left to do: a stream that waits for no other would
// not see the result.
class OnOwnStream : public ReplicableModule {
 public:
  OnOwnStream(engine::FakeCuda& gpus, const std::string& device)
      : gpus_(gpus), weight_(zeros({1}, DataType::kFloat32, device)), gradient_(weight_) {}

  std::vector<Parameter> parameters() override {
    return {{"weight", {1}, weight_.elements(), gradient_.elements()}};
  }
  std::unique_ptr<ReplicableModule> replicate() const override { return nullptr; }
  std::unique_ptr<ReplicableModule> replicate_on(const std::string& device) const override {
    return std::make_unique<OnOwnStream>(gpus_, device);
  }
  Tensor forward(const Arguments& inputs) override {
    ExpectIdle();
    return std::get<Tensor>(inputs[0]);
  }
  void backward(const Tensor&) override { ExpectIdle(); }
  // CUDA manages its memory from now on.
  void Manage() {
    gpus_.Manage(weight_.elements().data);
    gpus_.Manage(gradient_.elements().data);
  }

 private:
  void ExpectIdle() const {
    const int gpu = gpus_.ChosenDevice().value();
    EXPECT_TRUE(gpus_.idle(gpu)) << "GPU " << gpu;
  }

  engine::FakeCuda& gpus_;
  Tensor weight_, gradient_;
};

class GpuOrderTest : public library::FakeGpus {
 protected:
  Tensor TwoRowsOn(const std::string& device) {
    return Tensor({2, 1}, std::vector<float>{1, 2}).to(device);
  }
};

TEST_F(GpuOrderTest, AReplicaSeesItsInputsAndZeroedGradientsOnAnyStream) {
  for (const std::string& device : kBothGpus) {
    OnOwnStream model(gpus_, "cuda:0");
    DataParallel parallel(model, {.device_ids = kBothGpus});
    parallel.forward({TwoRowsOn(device)});
    parallel.backward(TwoRowsOn(device));
  }
}

TEST_F(GpuOrderTest, TheStepsByThemselvesKeepTheOrderToo) {
  OnOwnStream model(gpus_, "cuda:0");
  const auto replicas = replicate(model, kBothGpus);
  const std::vector<ReplicableModule*> modules = {replicas[0].get(), replicas[1].get()};
  for (const std::string& device : kBothGpus)
    parallel_apply(modules, scatter({TwoRowsOn(device)}, kBothGpus), kBothGpus);
}

TEST_F(GpuOrderTest, MemoryThatCudaManagesIsOnEveryGpu) {
  OnOwnStream model(gpus_, "cuda:1");
  model.Manage();
  const std::vector<std::string> devices = {"cuda:1", "cuda:0"};
  EXPECT_THAT(DataParallel(model, {.device_ids = devices}).device_ids(),
              ElementsAre("cuda:1", "cuda:0"));
}

}  // namespace
}  // namespace dp::distributed
