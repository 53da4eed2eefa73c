#include "worker/agent/accounts/run_as.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uid_t kDaemonAnn = 1000;
constexpr uid_t kDaemonRoot = 0;

const Account kAnn{.name = "ann", .uid = 1000, .gid = 1000};
const Account kRootAccount{.name = "root", .uid = 0, .gid = 0};
const absl::Status kNoAccount = absl::NotFoundError("this host has no account x");

std::string ErrorOf(const absl::Status& status) { return std::string(status.message()); }

class RunAsTest : public testing::Test {
 protected:
  static JobOwner Of(const std::string& owner) { return {.job = 7, .owner = owner}; }

  const RunAs owner_{.kind = RunAs::Kind::kOwner};
  const RunAs fixed_{.kind = RunAs::Kind::kAccount, .account = "dp-job"};
};

TEST_F(RunAsTest, RootRunsJobsAsTheirOwnersAndOthersAsThemselvesByDefault) {
  EXPECT_EQ(RunAsFrom("", false, kDaemonRoot)->kind, RunAs::Kind::kOwner);
  EXPECT_EQ(RunAsFrom("", false, kDaemonAnn)->kind, RunAs::Kind::kSelf);
}

TEST_F(RunAsTest, AnyOtherWordNamesAnAccount) {
  const RunAs named = *RunAsFrom("dp-job", false, kDaemonRoot);
  EXPECT_EQ(named, fixed_);
}

TEST_F(RunAsTest, OnlyRootRunsJobsAsOthers) {
  for (const char* policy : {"owner", "dp-job"}) {
    const absl::Status status = RunAsFrom(policy, true, kDaemonAnn).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(ErrorOf(status), AllOf(HasSubstr(policy), HasSubstr("uid 1000")));
  }
  EXPECT_TRUE(RunAsFrom("self", false, kDaemonAnn).ok());
}

TEST_F(RunAsTest, ADaemonOfRootRunsJobsAsItselfOnlyIfRootIsAllowed) {
  EXPECT_THAT(ErrorOf(RunAsFrom("self", false, kDaemonRoot).status()), HasSubstr("--allow-root"));
  EXPECT_EQ(RunAsFrom("self", true, kDaemonRoot)->kind, RunAs::Kind::kSelf);
}

TEST_F(RunAsTest, AJobRunsAsItsOwner) {
  EXPECT_EQ(*AccountNameFor(owner_, Of("ann"), "w"), "ann");
  EXPECT_EQ(*AccountFor(owner_, Of("ann"), kAnn, "w"), kAnn);
}

TEST_F(RunAsTest, AnOwnersNameIsNotShortened) {
  EXPECT_EQ(*AccountNameFor(owner_, Of("ann@example.org"), "w"), "ann@example.org");
}

TEST_F(RunAsTest, AllJobsRunAsANamedAccountWhoeverOwnsThem) {
  EXPECT_EQ(*AccountNameFor(fixed_, Of("ann"), "w"), "dp-job");
  EXPECT_EQ(*AccountNameFor(fixed_, Of(""), "w"), "dp-job");
  EXPECT_EQ(*AccountNameFor(fixed_, {.job = 7}, "w"), "dp-job");
}

TEST_F(RunAsTest, ACoordinatorThatNamesNoOwnerIsOfAnEarlierRelease) {
  EXPECT_THAT(
      ErrorOf(AccountNameFor(owner_, {.job = 7}, "w").status()),
      AllOf(HasSubstr("worker w"), HasSubstr("job 7"), HasSubstr("upgrade the coordinator")));
}

TEST_F(RunAsTest, AJobThatNobodyHasProvenToOwnIsRefused) {
  EXPECT_THAT(ErrorOf(AccountNameFor(owner_, Of(""), "w").status()),
              AllOf(HasSubstr("job 7 belongs to nobody"), HasSubstr("log in")));
}

TEST_F(RunAsTest, AMissingAccountIsNamedWithItsWorkerAndTheRemedy) {
  const absl::Status status = AccountFor(owner_, Of("ann"), kNoAccount, "w").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(ErrorOf(status),
              AllOf(HasSubstr("job 7 belongs to ann"), HasSubstr("worker w"),
                    HasSubstr("create the account"), HasSubstr("--run-as ACCOUNT")));
}

TEST_F(RunAsTest, RootIsRefusedUnlessItIsAllowed) {
  EXPECT_THAT(ErrorOf(AccountFor(owner_, Of("root"), kRootAccount, "w").status()),
              AllOf(HasSubstr("uid 0"), HasSubstr("--allow-root")));
  const RunAs allowed{.kind = RunAs::Kind::kOwner, .allow_root = true};
  EXPECT_TRUE(AccountFor(allowed, Of("root"), kRootAccount, "w").ok());
}

TEST_F(RunAsTest, AnotherAccountOfUidZeroIsRootToo) {
  const Account toor{.name = "toor", .uid = 0, .gid = 0};
  EXPECT_FALSE(AccountFor(owner_, Of("toor"), toor, "w").ok());
  EXPECT_FALSE(AccountFor(fixed_, Of("ann"), toor, "w").ok());
  EXPECT_THAT(ErrorOf(CheckFixedAccount(fixed_, toor)), HasSubstr("uid 0"));
}

TEST_F(RunAsTest, ADatabaseThatDoesNotAnswerIsNoMissingAccount) {
  const absl::Status silent = absl::UnavailableError("account ann cannot be looked up: I/O error");
  EXPECT_THAT(ErrorOf(AccountFor(owner_, Of("ann"), silent, "w").status()),
              AllOf(HasSubstr("I/O error"), HasSubstr("worker w")));
  EXPECT_EQ(CheckFixedAccount(fixed_, silent), silent);
}

TEST_F(RunAsTest, ANamedAccountThatIsMissingIsRefusedAtTheDaemonsStart) {
  EXPECT_THAT(ErrorOf(CheckFixedAccount(fixed_, kNoAccount)),
              AllOf(HasSubstr("--run-as dp-job"), HasSubstr("create it")));
}

}  // namespace
}  // namespace dp::worker
