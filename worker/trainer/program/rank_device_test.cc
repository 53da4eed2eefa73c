#include "worker/trainer/program/rank_device.h"

#include <thread>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/trainer/program/open_group.h"
#include "worker/trainer/testing/striped_images.h"

namespace dp::trainer {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(RankDeviceTest, ARankComputesOnTheCpuUnlessItsDaemonSaysOtherwise) {
  auto device = OpenRankDevice({}, TrainingPlan());
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->stream(), nullptr);
}

TEST(RankDeviceTest, AGpuThatCannotBeUsedFailsTheRankWithWhereToLook) {
  const auto device = OpenRankDevice({.on_gpu = true}, TrainingPlan());
  if (device.ok()) GTEST_SKIP() << "this host has a GPU";
  EXPECT_THAT(std::string(device.status().message()), StartsWith("the GPU cannot be used: "));
  EXPECT_THAT(std::string(device.status().message()), HasSubstr("dp-trainer-cuda --self-check"));
}

constexpr char kRefused[] = "cuda_memory.cc:13: cudaMalloc: out of memory";

std::string MemoryRemedy(const TrainingPlan& plan, const GpuCard& card, int samples) {
  const absl::Status status = WithMemoryRemedy(absl::ResourceExhaustedError(kRefused),
                                               {.on_gpu = true, .card = card}, plan, samples);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  return std::string(status.message());
}

TEST(MemoryRemedyTest, ABatchThatDoesNotFitIsSaidWithTheCardAndWhatToLower) {
  TrainingPlan plan = APlan();
  plan.global_batch_size = 64;
  EXPECT_EQ(MemoryRemedy(plan, {"NVIDIA H100", int64_t{81559} << 20}, 32),
            "train.globalBatchSize 64, of which this rank takes 32 samples a step, is too much for "
            "the memory of NVIDIA H100 with 81559 MiB: lower it, or spread it over more ranks, or "
            "raise train.accumulate, or try train.precision bf16; " +
                std::string(kRefused));
  plan.precision = engine::Precision::kBfloat16;
  plan.data.source = engine::TokenDatasetOptions{.context = 1024};
  EXPECT_EQ(MemoryRemedy(plan, {}, 1),
            "train.globalBatchSize 64, of which this rank takes 1 sample a step, is too much for "
            "the memory of a GPU of unknown model: lower it, or spread it over more ranks, or "
            "lower train.data.context; " +
                std::string(kRefused));
}

TEST(MemoryRemedyTest, AnythingElseAndTheHostsOwnMemoryStayAsTheyAre) {
  const absl::Status other = absl::InternalError("x"), host = absl::ResourceExhaustedError("y");
  EXPECT_EQ(WithMemoryRemedy(other, {.on_gpu = true}, APlan(), 1), other);
  EXPECT_EQ(WithMemoryRemedy(host, {}, APlan(), 1), host);
  EXPECT_EQ(WithMemoryRemedy(absl::OkStatus(), {.on_gpu = true}, APlan(), 1), absl::OkStatus());
}

TEST(WithoutNcclTest, ALibraryThatIsNotThereIsNoLostPeer) {
  EXPECT_EQ(WithoutNccl(absl::UnavailableError("cannot load libnccl.so.2")),
            absl::FailedPreconditionError(
                "NCCL cannot be used: cannot load libnccl.so.2; 'dp-trainer-cuda --self-check' on "
                "this host says more"));
  const absl::Status not_built = absl::UnimplementedError("built without NCCL");
  EXPECT_EQ(WithoutNccl(not_built), not_built);
}

class OpenGroupTest : public testing::Test {
 protected:
  absl::StatusOr<OpenedGroup> Open(const std::string& backend, bool on_gpu) {
    const Environment environment{.rank = 0, .world_size = 1, .on_gpu = on_gpu};
    return OpenGroup({backend}, store_, environment, {}, &model_);
  }
  HashStore store_;
  const RankModel model_ = *MakeRankModel(APlan(), StripedImages(/*size=*/8), /*batch_size=*/2);
};

TEST_F(OpenGroupTest, ARankThatIsAloneNeedsNoBackendOnAnyDevice) {
  for (const bool on_gpu : {false, true}) {
    const auto opened = Open("auto", on_gpu);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(opened->backend, "local");
  }
}

// One bucket for each parameter, for all steps that a program has in flight.
TEST_F(OpenGroupTest, BucketsOfOneParameterDoNotBreakTheGroup) {
  const size_t parameters = model_.averaged.parameters.size();
  EXPECT_GE(NcclOperationsOf(model_), 4096 + 8 * parameters);
  RankModel large;
  large.averaged.parameters.resize(5000);
  EXPECT_GE(NcclOperationsOf(large), size_t{4 * 5000});
}

// Backward's products leave that many processors free.
TEST_F(OpenGroupTest, CollectivesOverNcclHaveALimitOfBlocks) {
  EXPECT_EQ(NcclOptionsOf({}, model_).tuning.ctas_max, 16);
}

TEST_F(OpenGroupTest, ABackendThatDoesNotReachTheDeviceIsRefused) {
  EXPECT_THAT(std::string(Open("nccl", false).status().message()), HasSubstr("computes on CPUs"));
  EXPECT_THAT(std::string(Open("gloo", true).status().message()), HasSubstr("computes on a GPU"));
  EXPECT_TRUE(Open("nccl", true).ok());
  EXPECT_THAT(std::string(Open("shm", true).status().message()), HasSubstr("computes on a GPU"));
  EXPECT_TRUE(Open("gloo", false).ok());
  EXPECT_TRUE(Open("shm", false).ok());
  EXPECT_TRUE(Open("hierarchical", false).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Open("mpi", true).status()));
}

// A store in which the card of rank 1 may be that of another host of the same name.
class StoreOfTwins : public HashStore {
 public:
  explicit StoreOfTwins(bool rank_1_moves) : rank_1_moves_(rank_1_moves) {}

  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    std::vector<StoreOperation> changed(operations.begin(), operations.end());
    for (StoreOperation& operation : changed) {
      auto* const set = std::get_if<StoreSet>(&operation);
      if (rank_1_moves_ && set != nullptr && absl::EndsWith(set->key, "shm/1/arrived")) {
        set->value = absl::StrCat("elsewhere-", set->value);
      }
    }
    return HashStore::Execute(changed);
  }

 private:
  const bool rank_1_moves_;
};

// Ranks on CPUs that are threads of this process. The last one is on another worker, unless all are
// on one.
class OpenGroupOnCpuTest : public testing::Test {
 protected:
  std::vector<absl::StatusOr<OpenedGroup>> Open(const BackendChoice& choice) {
    StoreOfTwins store(rank_1_moves_);
    std::vector<absl::StatusOr<OpenedGroup>> opened(static_cast<size_t>(world_size_));
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < world_size_; ++rank) {
      ranks.emplace_back([&, rank] {
        Environment environment{.rank = rank, .world_size = world_size_, .address = "127.0.0.1"};
        environment.worker = choice.on_one_worker || rank < world_size_ - 1 ? "w1" : "w2";
        opened[rank] = OpenGroup(choice, store, environment, timeouts_, &model_);
      });
    }
    ranks.clear();
    return opened;
  }
  // Each rank's backend, or its error.
  std::string BackendsOf(const BackendChoice& choice) {
    std::string backends;
    for (const auto& opened : Open(choice)) {
      absl::StrAppend(&backends, opened.ok() ? opened->backend : opened.status().ToString(), " ");
    }
    return backends;
  }

  int world_size_ = 2;
  bool rank_1_moves_ = false;
  const Timeouts timeouts_ = TimeoutsFor(absl::Minutes(2), {});
  const RankModel model_ = *MakeRankModel(APlan(), StripedImages(/*size=*/8), /*batch_size=*/2);
};

TEST_F(OpenGroupOnCpuTest, RanksOfOneHostShareMemory) {
  EXPECT_EQ(BackendsOf({"auto", /*on_one_worker=*/true}), "shm shm ");
}

TEST_F(OpenGroupOnCpuTest, RanksOfSeveralHostsTakeGloo) {
  EXPECT_EQ(BackendsOf({"auto", /*on_one_worker=*/false}), "gloo gloo ");
}

TEST_F(OpenGroupOnCpuTest, RanksOfSeveralHostsWithSeveralRanksTakeBothLevels) {
  world_size_ = 3;
  EXPECT_EQ(BackendsOf({"auto", /*on_one_worker=*/false}),
            "hierarchical hierarchical hierarchical ");
  EXPECT_EQ(BackendsOf({"gloo", /*on_one_worker=*/false}), "gloo gloo gloo ");
  EXPECT_EQ(BackendsOf({"Hierarchical", /*on_one_worker=*/true}), "shm shm shm ");
}

TEST_F(OpenGroupOnCpuTest, ABackendThatIsNamedIsTakenWhereverTheRanksAre) {
  EXPECT_EQ(BackendsOf({"Shm", /*on_one_worker=*/false}), "shm shm ");
  EXPECT_EQ(BackendsOf({"gloo", /*on_one_worker=*/true}), "gloo gloo ");
}

TEST_F(OpenGroupOnCpuTest, RanksThatCannotShareMemoryTakeGlooUnlessTheJobSaysShm) {
  rank_1_moves_ = true;
  EXPECT_EQ(BackendsOf({"auto", /*on_one_worker=*/true}), "gloo gloo ");
  for (const auto& opened : Open({"shm", /*on_one_worker=*/true})) {
    EXPECT_TRUE(absl::IsFailedPrecondition(opened.status())) << opened.status();
  }
}

}  // namespace
}  // namespace dp::trainer
