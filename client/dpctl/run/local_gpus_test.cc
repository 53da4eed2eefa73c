#include "client/dpctl/run/local_gpus.h"

#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

Machine WithGpus(int count) {
  return {.gpus = [count] {
    return LocalGpus{.count = count, .why_not = count == 0 ? "no driver" : ""};
  }};
}

v1::JobSpec Trains(const std::string& device, int ranks = 1) {
  v1::JobSpec spec;
  spec.set_ranks(ranks);
  spec.mutable_train()->set_device(device);
  return spec;
}

v1::JobSpec RunsOnGpuSlots() {
  v1::JobSpec spec;
  spec.set_ranks(1);
  spec.set_slots("gpu");
  spec.mutable_command()->add_argv("true");
  return spec;
}

v1::ListWorkersResponse AWorker(bool trains) {
  v1::ListWorkersResponse response;
  v1::Worker& worker = *response.add_workers();
  worker.set_trains_on_gpus(trains);
  if (!trains) worker.set_no_gpu_trainer("nccl: missing");
  return response;
}

TEST(LocalGpusTest, AJobThatNeedsNoGpuAsksForNone) {
  const Machine never_asked = {.gpus = []() -> LocalGpus {
    ADD_FAILURE() << "the machine was asked";
    return {};
  }};
  EXPECT_TRUE(CheckLocalGpus(never_asked, Trains("auto"), 2).ok());
  EXPECT_FALSE(TrainsOnGpus(Trains("auto")));
}

TEST(LocalGpusTest, TooFewAreRefusedWithTheReasonAndTheWayOut) {
  EXPECT_EQ(CheckLocalGpus(WithGpus(0), Trains("cuda"), 1),
            absl::FailedPreconditionError(
                "the job needs 1 GPU (train.device: cuda), and this machine has 0 that ranks may "
                "use (no driver); to train on CPUs leave out train.device, train.precision and "
                "slots"));
  EXPECT_EQ(CheckLocalGpus(WithGpus(1), Trains("cuda", 2), 1).message(),
            "the job needs 2 GPUs (train.device: cuda), and this machine has 1 that ranks may use; "
            "to train on CPUs leave out train.device, train.precision and slots");
  EXPECT_EQ(CheckLocalGpus(WithGpus(0), RunsOnGpuSlots(), 1).message(),
            "the job needs 1 GPU (slots: gpu), and this machine has 0 that ranks may use (no "
            "driver); leave out slots");
  EXPECT_TRUE(CheckLocalGpus(WithGpus(2), Trains("cuda", 2), 1).ok());
}

TEST(LocalGpusTest, SeveralWorkersWouldGiveOutTheSameOnes) {
  EXPECT_EQ(CheckLocalGpus(WithGpus(2), Trains("cuda", 2), 2).message(),
            "the job needs GPUs (train.device: cuda), and 2 workers on one machine would give out "
            "the same ones twice; start one, with --workers 1 and without nodes");
}

TEST(LocalGpusTest, WhereNoTrainerCanItsReasonIsSaid) {
  EXPECT_TRUE(TrainsOnGpus(Trains("cuda")));
  EXPECT_FALSE(TrainsOnGpus(RunsOnGpuSlots()));
  EXPECT_TRUE(CheckLocalTrainer(AWorker(true)).ok());
  EXPECT_EQ(CheckLocalTrainer(AWorker(false)).message(),
            "the job trains on GPUs, and no trainer can do so on this machine: nccl: missing; to "
            "train on CPUs leave out train.device, train.precision and slots");
}

}  // namespace
}  // namespace dp::ctl
