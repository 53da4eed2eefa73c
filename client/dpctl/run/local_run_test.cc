#include "client/dpctl/run/local_run.h"

#include <cstdlib>

#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

class LocalProgramTest : public DpctlTest {
 protected:
  class Nowhere final : public LocalCluster {
   public:
    std::string address() const override { return "local:1"; }
    std::string credential_dir() const override { return "local"; }
    void EndAtOnce() override {}
    std::shared_ptr<void> Watch(std::function<void(const std::string&)>) override {
      return nullptr;
    }
  };

  LocalOptions StartedFor(const std::string& words) {
    start_local_ = [this](const LocalOptions& asked) {
      options_ = asked;
      return std::make_unique<Nowhere>();
    };
    coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_SUCCEEDED); };
    AddLogPage("finished: true");
    EXPECT_EQ(Dpctl("run --local " + words).code, 0) << err_.str();
    return options_;
  }

 private:
  LocalOptions options_;
};

TEST_F(LocalProgramTest, ThereIsAWorkerForEachNode) {
  const LocalOptions options = StartedFor("--nnodes 2 --nproc-per-node 3 -- ./train");
  EXPECT_EQ(options.workers, 2);
  EXPECT_EQ(options.slots, 3);
}

TEST_F(LocalProgramTest, TorchrunsVariableStartsItToo) {
  start_local_ = [](const LocalOptions&) { return std::make_unique<Nowhere>(); };
  coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_SUCCEEDED); };
  AddLogPage("finished: true");
  setenv("PET_STANDALONE", "1", 1);
  EXPECT_EQ(Dpctl("run --workers 2 -- ./train").code, 0) << err_.str();
  EXPECT_EQ(address_, "local:1");
  EXPECT_EQ(Dpctl("ps").code, 0);
  unsetenv("PET_STANDALONE");
}

TEST_F(LocalProgramTest, TheAddressOfAnotherCoordinatorIsNotLookedAt) {
  setenv("DPCTL_COORDINATOR", "no-address", 1);
  (void)StartedFor("-- ./train");
  EXPECT_EQ(address_, "local:1");
  setenv("PET_STANDALONE", "1", 1);
  AddLogPage("finished: true");
  EXPECT_EQ(Dpctl("run -- ./train").code, 0) << err_.str();
  unsetenv("PET_STANDALONE");
  const Result result = Dpctl("run -- ./train");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, ::testing::HasSubstr("the coordinator's address 'no-address'"));
  unsetenv("DPCTL_COORDINATOR");
}

TEST_F(LocalProgramTest, AStoreThatTheCoordinatorServesIsServedByTheLocalOneToo) {
  EXPECT_TRUE(StartedFor("--store direct -- ./train").serves_stores);
  EXPECT_FALSE(StartedFor("-- ./train").serves_stores);
}

TEST_F(LocalProgramTest, LocalRunsHaveIdsOfTheirOwn) {
  const auto id = [this](const std::string& flags) {
    (void)StartedFor(flags + " -- ./train");
    const auto& env = coordinator_.jobs.rbegin()->second.spec().env();
    return env.contains("TORCHELASTIC_RUN_ID") ? env.at("TORCHELASTIC_RUN_ID") : "";
  };
  const std::string first = id("");
  EXPECT_THAT(first, ::testing::StartsWith("dp-local-"));
  EXPECT_NE(id(""), first);
  EXPECT_EQ(id("--rdzv-id mine"), "mine");
  EXPECT_EQ(id("--contract plain"), "");
}

TEST_F(LocalProgramTest, ThisMachinesGpusCountElseItsCores) {
  machine_ = {.cpus = 6, .gpus = [] { return LocalGpus{.count = 2, .why_not = ""}; }};
  EXPECT_EQ(StartedFor("--nproc-per-node auto -- ./train").slots, 2);
  EXPECT_EQ(StartedFor("--nproc-per-node cpu -- ./train").slots, 6);
}

TEST_F(LocalProgramTest, WithoutAGpuThereIsNothingToCount) {
  machine_.gpus = [] { return LocalGpus{.count = 0, .why_not = "no driver"}; };
  const Result result = Dpctl("run --standalone --nproc-per-node gpu -- ./train");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(
      result.err,
      "dpctl: --nproc-per-node is gpu, but this machine has no GPU that ranks may use (no driver); "
      "give a number, or cpu\n");
}

}  // namespace
}  // namespace dp::ctl
