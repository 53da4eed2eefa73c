#include "worker/trainer/program/shared_plans.h"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/failure.h"
#include "worker/trainer/testing/over_cpu.h"
#include "worker/trainer/testing/striped_images.h"

namespace dp::trainer {
namespace {

using ::testing::ElementsAre;

// The calls that devices received, in order. Thread-safe.
class Deeds {
 public:
  void Add(const std::string& deed) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    deeds_.push_back(deed);
  }
  std::vector<std::string> all() const DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return deeds_;
  }

 private:
  mutable Mutex mu_;
  std::vector<std::string> deeds_ DP_GUARDED_BY(mu_);
};

// The CPU, posing as a device that times what it compiles.
class TimingDevice final : public OverCpu {
 public:
  TimingDevice(int rank, Deeds& deeds) : name_(std::to_string(rank)), deeds_(deeds) {}

  absl::StatusOr<std::unique_ptr<engine::Network>> Compile(
      absl::Span<const model::CheckedLayer> layers, const engine::NetworkOptions& options,
      absl::Span<const float> values, absl::Span<float> gradients) override {
    deeds_.Add(absl::StrCat(name_, " compiles, leaves ", options.collective_blocks, " blocks",
                            options.deterministic ? "" : ", bits may differ"));
    return OverCpu::Compile(layers, options, values, gradients);
  }
  std::string plans() const override { return "what " + name_ + " found"; }
  void TakePlans(absl::string_view plans) override {
    deeds_.Add(name_ + " takes " + std::string(plans));
  }
  void* stream() const override { return const_cast<TimingDevice*>(this); }

 private:
  const std::string name_;
  Deeds& deeds_;
};

class SharedPlansTest : public ::testing::Test {
 protected:
  absl::Status Make(int rank, int world_size, absl::Duration timeout = absl::Seconds(60)) {
    return Make(rank, world_size, std::make_unique<TimingDevice>(rank, deeds_), timeout);
  }
  absl::Status Make(int rank, int world_size, std::unique_ptr<engine::Device> device,
                    absl::Duration timeout) {
    return SharedPlans(store_, rank, world_size, timeout)
        .MakeModel(plan_, StripedImages(/*size=*/8), /*batch_size=*/2, std::move(device))
        .status();
  }

  TrainingPlan plan_ = APlan();
  HashStore store_;
  Deeds deeds_;
};

TEST_F(SharedPlansTest, TheOthersBeginWithWhatRankZeroHasFound) {
  absl::Status other;
  std::jthread waits([&] { other = Make(1, 2); });
  EXPECT_EQ(Make(0, 2), absl::OkStatus());
  waits.join();
  EXPECT_EQ(other, absl::OkStatus());
  EXPECT_THAT(deeds_.all(), ElementsAre("0 compiles, leaves 16 blocks", "1 takes what 0 found",
                                        "1 compiles, leaves 16 blocks"));
}

TEST_F(SharedPlansTest, ANetworkTakesTheWholeDeviceIfTheRankIsAloneAndOtherBitsIfTheJobDoes) {
  plan_.deterministic = false;
  EXPECT_EQ(Make(0, 1), absl::OkStatus());
  EXPECT_THAT(deeds_.all(), ElementsAre("0 compiles, leaves 0 blocks, bits may differ"));
}

TEST_F(SharedPlansTest, ARankZeroThatMakesNoModelIsNamed) {
  const absl::Status status = Make(1, 2, absl::Milliseconds(10));
  EXPECT_EQ(status.message(), "plans of the model: rank 0 did not arrive within 10ms");
  EXPECT_THAT(engine::MissingRanks(status), ElementsAre(0));
  EXPECT_TRUE(deeds_.all().empty());
}

TEST_F(SharedPlansTest, ARankThatIsAloneAndOneOnTheCpuAskNobody) {
  EXPECT_EQ(Make(0, 1), absl::OkStatus());
  EXPECT_EQ(Make(1, 2, *engine::OpenCpu(/*threads=*/1), absl::ZeroDuration()), absl::OkStatus());
  EXPECT_EQ(store_.NumKeys().value(), 0);
}

}  // namespace
}  // namespace dp::trainer
