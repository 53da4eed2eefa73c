#include "server/core/job_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/core/job_lifecycle.h"

namespace dp::core {
namespace {

class JobRegistryTest : public testing::Test {
 protected:
  absl::StatusOr<JobRegistry::Submitted> Submit(const std::string& request, int ranks = 1) {
    return jobs_.Submit({request, {"job", ranks, ""}}, Revision(++revision_), absl::UnixEpoch());
  }
  std::optional<JobId> Finish(JobId job) {
    Cancel(*jobs_.Find(job), absl::UnixEpoch());
    return jobs_.Retire(job).forgotten;
  }

  JobRegistry jobs_;
  uint64_t revision_ = 0;
};

TEST_F(JobRegistryTest, ARequestIsRememberedAsLongAsItsJob) {
  const JobId job = Submit("a")->id;
  Finish(job);
  EXPECT_EQ(Submit("a")->id, job);
  EXPECT_FALSE(Submit("a")->made);
}

class JobSecretsTest : public JobRegistryTest {
 protected:
  absl::StatusOr<JobRegistry::Submitted> SubmitWith(std::vector<SealedSecret> secrets) {
    SubmitJob submit{"a", {"job", 1, "spec"}};
    submit.secrets = std::move(secrets);
    return jobs_.Submit(submit, Revision(++revision_), absl::UnixEpoch());
  }
};

TEST_F(JobSecretsTest, AJobHasThemUntilItsEnd) {
  const JobId job = SubmitWith({{"TOKEN", "sealed"}})->id;
  EXPECT_EQ(jobs_.Find(job)->secrets, (std::vector<SealedSecret>{{"TOKEN", "sealed"}}));
  EXPECT_EQ(jobs_.spec_bytes(), 4u + 5u + 6u);
  Finish(job);
  EXPECT_TRUE(jobs_.Find(job)->secrets.empty());
  EXPECT_EQ(jobs_.spec_bytes(), 4u);
  jobs_.Forget(job);
  EXPECT_EQ(jobs_.spec_bytes(), 0u);
}

// A client that repeats a request has it sealed anew.
TEST_F(JobSecretsTest, ARepeatedRequestKeepsThoseOfTheFirst) {
  const JobId job = SubmitWith({{"TOKEN", "sealed"}})->id;
  EXPECT_FALSE(SubmitWith({{"TOKEN", "sealed again"}})->made);
  EXPECT_EQ(jobs_.Find(job)->secrets.front().sealed, "sealed");
}

TEST_F(JobSecretsTest, TheyAreBounded) {
  EXPECT_EQ(SubmitWith(std::vector<SealedSecret>(33)).status().message(),
            "the job has 33 secrets of 0 sealed bytes; the limits are 32 and 67584");
  EXPECT_TRUE(absl::IsInvalidArgument(SubmitWith({{"A", std::string(67584, 'x')}}).status()));
  EXPECT_TRUE(SubmitWith({{"A", std::string(67583, 'x')}}).ok());
}

TEST_F(JobRegistryTest, TheNumberOfUnfinishedJobsIsBounded) {
  for (size_t i = 0; i < JobRegistry::kUnfinishedMax; ++i) Submit(absl::StrCat(i)).value();
  EXPECT_EQ(Submit("one more").status().code(), absl::StatusCode::kResourceExhausted);
  Finish(JobId(1));
  EXPECT_TRUE(Submit("one more").ok());
}

TEST_F(JobRegistryTest, TheUnfinishedJobsOfAUserAreCounted) {
  const auto of_ann = [this](const std::string& request) {
    SubmitJob submit{request, {"job", 1, ""}};
    submit.user = "ann";
    return jobs_.Submit(submit, Revision(++revision_), absl::UnixEpoch())->id;
  };
  Submit("of nobody").value();
  const JobId first = of_ann("a"), second = of_ann("b");
  of_ann("b");  // a repetition
  EXPECT_EQ(jobs_.unfinished_of("ann"), 2u);
  EXPECT_EQ(jobs_.unfinished_of(""), 1u);
  Finish(first);
  EXPECT_EQ(jobs_.unfinished_of("ann"), 1u);
  Finish(second);
  EXPECT_EQ(jobs_.unfinished_of("ann"), 0u);
}

TEST_F(JobRegistryTest, TheJobThatFinishedFirstIsForgottenFirst) {
  for (size_t i = 1; i <= JobRegistry::kFinishedMax; ++i) {
    EXPECT_EQ(Finish(Submit(absl::StrCat(i))->id), std::nullopt);
  }
  EXPECT_EQ(Finish(Submit("one more")->id), JobId(1));
  EXPECT_EQ(jobs_.Find(JobId(1)), nullptr);
  EXPECT_TRUE(Submit("1")->made);
}

TEST_F(JobRegistryTest, FinishedJobsAreListedByTheEndOfTheirRecordOnly) {
  const JobId a = Submit("a")->id, b = Submit("b")->id;
  Finish(a);
  EXPECT_EQ(jobs_.unfinished(), std::vector<const Job*>{jobs_.Find(b)});
  ASSERT_EQ(jobs_.expiries().size(), 1u);
  EXPECT_EQ(jobs_.expiries().begin()->second, a);
  jobs_.Forget(a);
  EXPECT_TRUE(jobs_.expiries().empty());
}

TEST_F(JobRegistryTest, BadRequestsNameTheValue) {
  EXPECT_EQ(Submit("a", 0).status().message(), "ranks is 0; give a number from 1 to 10000");
  EXPECT_EQ(Submit("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Submit(std::string(129, 'x')).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dp::core
