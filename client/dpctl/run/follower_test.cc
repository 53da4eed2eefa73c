#include "client/dpctl/run/follower.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;

class FollowerTest : public DpctlTest {};

TEST_F(FollowerTest, TheRemedyForAProgramThatWaitsForItsOwnStoreIsShownAfterASilence) {
  const std::string script = ::testing::TempDir() + "spawn_test.py";
  std::ofstream(script) << "os.environ['MASTER_PORT'] = '12355'\nmp.spawn(train, nprocs=2)";
  coordinator_.on_watch = [this](v1::Job& job) {
    job.set_state(job.version() < 3 ? v1::JOB_STATE_RUNNING : v1::JOB_STATE_SUCCEEDED);
    job.set_version(job.version() + 2);
  };
  coordinator_.on_read = [this] { PassTime(absl::Seconds(10)); };
  for (const char* store : {"relay", "program"}) {
    AddLogPage("");
    AddLogPage("finished: true");
    err_.str("");
    const Result result = Dpctl(absl::StrCat("run --store ", store, " ", script));
    EXPECT_EQ(absl::StrContains(result.err, "dpctl: no output for 10s: the program starts"),
              store == std::string("relay"))
        << result.err;
  }
  std::remove(script.c_str());
}

TEST_F(FollowerTest, LinesCarryRankAndHost) {
  AddLogPage(R"(chunks { rank: 1 stream: LOG_STREAM_STDOUT data: "hello\n" })");
  coordinator_.on_watch = [](v1::Job& job) {
    job.set_version(job.version() + 1);
    if (job.version() > 3) job.set_state(v1::JOB_STATE_SUCCEEDED);
    if (job.version() > 2 || job.ranks_size() > 0) return;
    job.set_state(v1::JOB_STATE_RUNNING);
    job.add_ranks()->set_host("host-a");
    job.add_ranks()->set_host("host-b");
    job.mutable_ranks(1)->set_rank(1);
  };
  AddLogPage("finished: true");
  EXPECT_EQ(Dpctl("run -- ./train").out, "[1 host-b] hello\n");
}

TEST_F(FollowerTest, LinesGoWhereTorchrunsFlagsSendThem) {
  const std::string dir = ::testing::TempDir() + "redirected";
  std::filesystem::remove_all(dir);
  coordinator_.on_watch = [](v1::Job& job) {
    job.set_state(job.version() < 3 ? v1::JOB_STATE_RUNNING : v1::JOB_STATE_SUCCEEDED);
    job.set_version(job.version() + 2);
  };
  AddLogPage(R"(chunks { generation: 1 rank: 0 stream: LOG_STREAM_STDOUT data: "zero\n" }
                chunks { generation: 1 rank: 1 stream: LOG_STREAM_STDOUT data: "one\n" }
                finished: true)");
  const Result result = Dpctl("torchrun --nproc-per-node 2 -r 0:1 -t 1:1 --log-dir " + dir +
                              " --log-line-prefix-template ${role_name}${local_rank}= train.py");
  EXPECT_EQ(result.out, "default1=one\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("dpctl: the ranks' lines go to " + dir + "/dp-logs-"));
  const auto run = std::filesystem::directory_iterator(dir)->path();
  std::ifstream file(run / "attempt_0" / "0" / "stdout.log");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "zero\n");
  EXPECT_TRUE(std::filesystem::exists(run / "attempt_0" / "1" / "stdout.log"));
  std::filesystem::remove_all(dir);
}

TEST_F(FollowerTest, WithoutADirectoryForFilesItIsSaidWhereTheLinesAre) {
  coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_SUCCEEDED); };
  AddLogPage("finished: true");
  EXPECT_THAT(Dpctl("torchrun -r=3 train.py").err,
              HasSubstr("dpctl: no files are written without --log-dir; 'dpctl logs 1' shows every "
                        "line, also those that --redirects keeps from here\n"));
}

TEST_F(FollowerTest, LinesThatNoFileTakesAreShown) {
  coordinator_.on_watch = [](v1::Job& job) {
    job.set_state(job.version() < 3 ? v1::JOB_STATE_RUNNING : v1::JOB_STATE_SUCCEEDED);
    job.set_version(job.version() + 2);
  };
  AddLogPage(R"(chunks { generation: 1 rank: 0 stream: LOG_STREAM_STDOUT data: "one\ntwo\n" }
                finished: true)");
  const Result result =
      Dpctl("torchrun -r 3 --log-dir /dev/null/logs --log-line-prefix-template = train.py");
  EXPECT_EQ(result.out, "=one\n=two\n") << result.err;
  EXPECT_THAT(result.err, HasSubstr("stdout.log cannot be written: Not a directory; further lines "
                                    "are shown here\n"));
}

TEST_F(FollowerTest, LocalRanksAreThoseOfThePlacementWhereTheJobLeavesThemToIt) {
  const std::string file = ::testing::TempDir() + "local_ranks_test.yaml";
  std::ofstream(file) << "{apiVersion: dp/v1, kind: Job, name: x, ranks: 3, command: {argv: [a]}}";
  coordinator_.on_watch = [](v1::Job& job) {
    job.set_state(job.version() < 3 ? v1::JOB_STATE_RUNNING : v1::JOB_STATE_SUCCEEDED);
    job.set_version(job.version() + 2);
    job.set_generation(1);
    job.clear_ranks();
    for (int rank = 0; rank < 3; ++rank) {
      v1::Rank& placed = *job.add_ranks();
      placed.set_rank(rank);
      placed.set_worker_id(rank < 1 ? 7 : 8);
    }
  };
  AddLogPage(R"(chunks { generation: 1 rank: 0 stream: LOG_STREAM_STDOUT data: "a\n" }
                chunks { generation: 1 rank: 1 stream: LOG_STREAM_STDOUT data: "b\n" }
                chunks { generation: 1 rank: 2 stream: LOG_STREAM_STDOUT data: "c\n" }
                finished: true)");
  setenv("PET_LOCAL_RANKS_FILTER", "0", 1);
  setenv("PET_LOG_LINE_PREFIX_TEMPLATE", "${local_rank}:", 1);
  const Result result = Dpctl("run " + file);
  unsetenv("PET_LOCAL_RANKS_FILTER");
  unsetenv("PET_LOG_LINE_PREFIX_TEMPLATE");
  EXPECT_EQ(result.out, "0:a\n0:b\n") << result.err;
  std::remove(file.c_str());
}

TEST_F(FollowerTest, LocalRanksThatNoWorkerHasAreTold) {
  coordinator_.on_watch = [](v1::Job& job) { job.set_state(v1::JOB_STATE_SUCCEEDED); };
  const auto notes = [this](const std::string& flags) {
    AddLogPage("finished: true");
    err_.str("");
    EXPECT_EQ(Dpctl("run --log-dir /dev/null/logs " + flags + " train.py").code, 0);
    return err_.str();
  };
  EXPECT_THAT(notes("--nproc-per-node 2 -r 0:1,7:3"),
              HasSubstr("dpctl: --redirects is \"0:1,7:3\", but no worker has local rank 7; local "
                        "ranks are 0 to 1\n"));
  EXPECT_THAT(notes("--nnodes 2 --nproc-per-node 2 -t 2:1,3:1"),
              HasSubstr("dpctl: --tee is \"2:1,3:1\", but no worker has local rank 2, 3; "));
  EXPECT_THAT(notes("--local-ranks-filter 0,5"),
              HasSubstr("dpctl: --local-ranks-filter is \"0,5\", but no worker has local rank 5; "
                        "local ranks are 0 alone\n"));
  EXPECT_THAT(notes("--nproc-per-node 2 -r 3 -t 1:1 --local-ranks-filter 1"),
              ::testing::Not(HasSubstr("no worker has")));
}

}  // namespace
}  // namespace dp::ctl
