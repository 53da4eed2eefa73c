#include "worker/library/init_method.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::library {
namespace {

using distributed::InitOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Where = Meeting::Where;

class InitMethodTest : public ::testing::Test {
 protected:
  InitMethodTest() {
    env_ = {
        {"MASTER_ADDR", "10.0.0.7"}, {"MASTER_PORT", "29500"}, {"WORLD_SIZE", "4"}, {"RANK", "2"}};
  }

  absl::StatusOr<Meeting> Read(const InitOptions& options = {}) const {
    return ReadMeeting(options, [this](absl::string_view name) -> std::optional<std::string> {
      const auto found = env_.find(std::string(name));
      if (found == env_.end()) return std::nullopt;
      return found->second;
    });
  }
  std::string Fault(const InitOptions& options = {}) const {
    const auto meeting = Read(options);
    return meeting.ok() ? "(none)" : std::string(meeting.status().message());
  }
  static InitOptions At(const std::string& method, int rank = 0, int world_size = 2) {
    return {.init_method = method, .world_size = world_size, .rank = rank};
  }

  std::map<std::string, std::string> env_;
};

TEST_F(InitMethodTest, TheEnvironmentIsTheDefault) {
  const Meeting meeting = *Read();
  EXPECT_EQ(meeting.where, Where::kTcp);
  EXPECT_EQ(meeting.host, "10.0.0.7");
  EXPECT_EQ(meeting.port, 29500);
  EXPECT_EQ(meeting.rank, 2);
  EXPECT_EQ(meeting.world_size, 4);
  EXPECT_FALSE(meeting.served);
  EXPECT_EQ(meeting.attempt, "");
  EXPECT_EQ(Read({.init_method = "env://"})->rank, 2);
}

TEST_F(InitMethodTest, EveryMissingVariableIsNamed) {
  env_ = {{"MASTER_PORT", ""}};
  EXPECT_THAT(Fault(), HasSubstr("variables MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK;"));
  env_ = {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}, {"WORLD_SIZE", "1"}};
  EXPECT_THAT(Fault(), AllOf(HasSubstr("variable RANK;"), Not(HasSubstr("MASTER_ADDR"))));
}

TEST_F(InitMethodTest, ArgumentsOverrideTheEnvironment) {
  EXPECT_EQ(Read({.rank = 3})->rank, 3);
  EXPECT_EQ(Read({.world_size = 9})->world_size, 9);
  env_.erase("RANK");
  env_.erase("WORLD_SIZE");
  const Meeting meeting = *Read({.world_size = 3, .rank = 1});
  EXPECT_EQ(meeting.rank, 1);
  EXPECT_EQ(meeting.world_size, 3);
}

TEST_F(InitMethodTest, AVariableThatIsNoNumberIsShown) {
  env_["RANK"] = "first";
  EXPECT_THAT(Fault(), HasSubstr("RANK is 'first', which is no number; set a whole number"));
  for (const char* far : {"99999999999999", "-99999999999999"}) {
    env_["RANK"] = far;
    EXPECT_THAT(Fault(), HasSubstr("', which is out of range, which ends at 2147483647; set"));
  }
  env_["RANK"] = "0";
  env_["MASTER_PORT"] = "70000";
  EXPECT_THAT(Fault(), HasSubstr("MASTER_PORT is 70000; give a number from 1 to 65535"));
}

TEST_F(InitMethodTest, APlaceOutsideTheWorldIsRejected) {
  EXPECT_THAT(Fault({.rank = 4}), HasSubstr("rank is 4; give a number from 0 to world_size - 1"));
  EXPECT_THAT(Fault({.rank = -1}), HasSubstr("rank is -1"));
  EXPECT_THAT(Fault({.world_size = 0}), HasSubstr("world_size is 0; give the number of ranks"));
}

TEST_F(InitMethodTest, ALauncherThatServesTheStoreIsHeeded) {
  env_["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  env_["TORCHELASTIC_RESTART_COUNT"] = "3";
  EXPECT_TRUE(Read()->served);
  EXPECT_EQ(Read()->attempt, "attempt_3");
  env_["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_FALSE(Read()->served);
}

TEST_F(InitMethodTest, TcpHasAHostAndAPort) {
  const Meeting meeting = *Read(At("tcp://[::1]:7071", 1, 2));
  EXPECT_EQ(meeting.where, Where::kTcp);
  EXPECT_EQ(meeting.host, "::1");
  EXPECT_EQ(meeting.port, 7071);
  EXPECT_EQ(meeting.rank, 1);
  EXPECT_THAT(Fault(At("tcp://somewhere")), HasSubstr("is no HOST:PORT"));
  EXPECT_THAT(Fault(At("tcp://h:1?rank=0")), HasSubstr("set rank and world_size in InitOptions"));
}

TEST_F(InitMethodTest, DiscoveryByGroupNameIsRefusedWithTheReason) {
  EXPECT_EQ(Fault({.init_method = "tcp://h:1", .group_name = "mine"}),
            "tcp://h:1 needs world_size and rank; set them in InitOptions, because ranks are not "
            "discovered by group_name");
  EXPECT_EQ(Fault(At("tcp://h:1?group_name=mine")),
            "init method tcp://h:1?group_name=mine has more than HOST:PORT; set rank and "
            "world_size in InitOptions, because ranks are not discovered by group_name");
}

TEST_F(InitMethodTest, AMulticastAddressIsRefusedWithTheReason) {
  for (const char* method : {"tcp://239.1.2.3:7071", "tcp://[ff02::1]:7071"}) {
    EXPECT_THAT(Fault(At(method)),
                HasSubstr("has a multicast address, at which nobody can serve the store"));
  }
  env_["MASTER_ADDR"] = "224.0.0.1";
  EXPECT_THAT(Fault(), HasSubstr("MASTER_ADDR is 224.0.0.1, a multicast address"));
  EXPECT_EQ(Fault(At("tcp://223.255.255.255:7071")), "(none)");
}

TEST_F(InitMethodTest, TcpAndFileNeedAPlaceFromTheOptions) {
  EXPECT_THAT(Fault({.init_method = "tcp://h:1"}),
              HasSubstr("tcp://h:1 needs world_size and rank; set them in InitOptions"));
  EXPECT_THAT(Fault({.init_method = "file:///f", .rank = 0}), Not(HasSubstr("group_name")));
  EXPECT_THAT(Fault({.init_method = "file:///f", .rank = 0}),
              HasSubstr("needs world_size; set it in"));
}

TEST_F(InitMethodTest, AFileHasAnAbsolutePath) {
  const Meeting meeting = *Read(At("file:///shared/run 7", 1));
  EXPECT_EQ(meeting.where, Where::kFile);
  EXPECT_EQ(meeting.path, "/shared/run 7");
  EXPECT_THAT(Fault(At("file://node7/run")), HasSubstr("names the host node7, and ranks can only"));
  for (const char* method : {"file://shared/run", "file://", "file:///folder/"}) {
    EXPECT_THAT(Fault(At(method)), HasSubstr("write file:///DIRECTORY/FILE with three slashes"));
  }
}

TEST_F(InitMethodTest, AStoreExcludesAnInitMethodAndNeedsAPlace) {
  InitOptions options{.store = distributed::HashStore()};
  EXPECT_THAT(Fault(options), HasSubstr("store needs world_size and rank"));
  options.world_size = 2;
  options.rank = 1;
  EXPECT_EQ(Read(options)->where, Where::kStore);
  EXPECT_EQ(Read(options)->rank, 1);
  options.init_method = "env://";
  EXPECT_THAT(Fault(options), HasSubstr("both store and init_method are given"));
}

TEST_F(InitMethodTest, OtherMethodsAreRefused) {
  EXPECT_THAT(Fault(At("mpi://")), HasSubstr("init method 'mpi://' is unknown; use env://, dp://"));
}

// A rank of job 7, as the daemon starts it. Its own environment says other things.
class JobInitMethodTest : public InitMethodTest {
 protected:
  JobInitMethodTest() {
    env_.insert({{"DP_COORDINATOR", "head:7070"},
                 {"DP_JOB", "7"},
                 {"DP_GENERATION", "5"},
                 {"DP_RANK", "1"},
                 {"DP_WORLD_SIZE", "3"},
                 {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  }
};

TEST_F(JobInitMethodTest, TheJobGivesPlaceAndStore) {
  for (const char* method : {"dp://", "dp://head:7070/7"}) {
    const Meeting meeting = *Read({.init_method = method});
    EXPECT_EQ(meeting.where, Where::kTcp);
    EXPECT_EQ(meeting.host, "10.0.0.7");
    EXPECT_EQ(meeting.port, 29500);
    EXPECT_EQ(meeting.rank, 1);
    EXPECT_EQ(meeting.world_size, 3);
    EXPECT_TRUE(meeting.served);
    EXPECT_EQ(meeting.attempt, "generation_5");
  }
}

TEST_F(JobInitMethodTest, Rank0ServesTheStoreIfTheJobHasNone) {
  env_["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_FALSE(Read({.init_method = "dp://"})->served);
  EXPECT_EQ(Read({.init_method = "dp://"})->attempt, "");
}

TEST_F(JobInitMethodTest, OutsideAJobTheErrorSaysHowToStart) {
  env_.erase("DP_JOB");
  EXPECT_EQ(Fault({.init_method = "dp://"}),
            "init method dp:// is for ranks of a job, and DP_JOB is not set; start the program by "
            "dpctl run, or give another init method");
}

TEST_F(JobInitMethodTest, AnotherJobIsRefusedByName) {
  EXPECT_EQ(Fault({.init_method = "dp://head:7070/8"}),
            "init method dp://head:7070/8 names another job than this rank's, dp://head:7070/7; "
            "use dp://");
}

TEST_F(JobInitMethodTest, OptionsMayOnlyRepeatWhatTheJobSays) {
  EXPECT_EQ(Fault({.init_method = "dp://", .world_size = 3, .rank = 1}), "(none)");
  EXPECT_EQ(Fault({.init_method = "dp://", .world_size = 4}),
            "world_size is 4, and job 7 says 3; leave it out, because dp:// takes it from the job");
  EXPECT_THAT(Fault({.init_method = "dp://", .rank = 0}), HasSubstr("rank is 0, and job 7 says 1"));
}

TEST_F(JobInitMethodTest, VariablesThatAreMissingOrWrongAreNamed) {
  env_["DP_RANK"] = "x";
  EXPECT_EQ(Fault({.init_method = "dp://"}),
            "init method dp://: DP_RANK is 'x', which is no number; set a whole number");
  env_.erase("DP_GENERATION");
  EXPECT_THAT(Fault({.init_method = "dp://"}),
              HasSubstr("dp:// misses the environment variable DP_GENERATION; every"));
  env_.erase("MASTER_ADDR");
  EXPECT_THAT(
      Fault({.init_method = "dp://"}),
      HasSubstr("dp:// misses the environment variables MASTER_ADDR, DP_GENERATION; every"));
}

}  // namespace
}  // namespace dp::library
