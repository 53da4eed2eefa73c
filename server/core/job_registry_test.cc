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

TEST_F(JobRegistryTest, TheNumberOfUnfinishedJobsIsBounded) {
  for (size_t i = 0; i < JobRegistry::kUnfinishedMax; ++i) Submit(absl::StrCat(i)).value();
  EXPECT_EQ(Submit("one more").status().code(), absl::StatusCode::kResourceExhausted);
  Finish(JobId(1));
  EXPECT_TRUE(Submit("one more").ok());
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
