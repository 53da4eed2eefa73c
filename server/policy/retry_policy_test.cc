#include "server/policy/retry_policy.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/job.h"

namespace dp::core {
namespace {

using testing::HasSubstr;

// A job whose generations fail, each after `ran` and a second, and the policy's verdict on each.
class RetryPolicyTest : public testing::Test {
 protected:
  RetryPolicyTest() {
    job_.id = JobId(1);
    job_.state = JobState::kStopping;
    job_.spec.restart.emplace();
  }

  RestartLimits& limits() { return *job_.spec.restart; }

  // Ends another generation. Returns "after 1s as infra", or why there is no restart.
  std::string Fail(FailureClass failure_class, absl::Duration ran = absl::Hours(1),
                   Exit exit = {Exit::How::kCode, 1}) {
    now_ += ran + absl::Seconds(1);
    job_.generation = Generation(job_.generation.value() + 1);
    Failure failure{.failure_class = failure_class, .exit = exit, .at = now_};
    failure.generation = job_.generation;
    if (ran > absl::ZeroDuration()) failure.running_at = now_ - ran;
    failure.before_first_step = before_first_step_;
    job_.failure = failure;
    return Take(DecideRetry(job_, now_));
  }
  // All ranks had joined, and one was to report the first step.
  std::string FailBeforeTheFirstStep(absl::Duration ran = absl::Hours(1)) {
    before_first_step_ = true;
    std::string verdict = Fail(FailureClass::kInfra, ran);
    before_first_step_ = false;
    return verdict;
  }
  std::string FailToStart(FailureClass failure_class) {
    return Fail(failure_class, absl::ZeroDuration());
  }

  Job job_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);

 private:
  bool before_first_step_ = false;

  std::string Take(const Action& verdict) {
    if (const auto* finish = std::get_if<FinishJob>(&verdict)) return finish->reason;
    const auto& retry = std::get<RetryJob>(verdict);
    job_.past.push_back({*job_.failure, retry.counted_as});
    if (retry.counted_as) job_.restarts[*retry.counted_as].push_back(now_);
    return absl::StrCat("after ", absl::FormatDuration(retry.not_before - now_), " as ",
                        retry.counted_as ? std::string(Name(*retry.counted_as)) : "nothing");
  }
};

TEST_F(RetryPolicyTest, AFailedProgramEndsTheJobUnlessItSaysOtherwise) {
  EXPECT_EQ(Fail(FailureClass::kUser), "restart.maxRestarts is 0");
}

TEST_F(RetryPolicyTest, RestartsAfterFailuresOfTheProgramCountOverTheWholeLife) {
  limits().user = 2;
  EXPECT_EQ(Fail(FailureClass::kUser), "after 0 as user");
  EXPECT_EQ(Fail(FailureClass::kUser, absl::Hours(100)), "after 0 as user");
  EXPECT_EQ(Fail(FailureClass::kUser, absl::Hours(100)),
            "restart.maxRestarts: 2 of 2 restarts are used up");
}

TEST_F(RetryPolicyTest, RestartsAfterFailuresOfHostsAreForgivenAfterTheWindow) {
  limits().infra = 1;
  limits().window = absl::Hours(1);
  EXPECT_EQ(Fail(FailureClass::kInfra), "after 0 as infra");
  EXPECT_EQ(Fail(FailureClass::kInfra, absl::Minutes(61)), "after 0 as infra");
  EXPECT_EQ(Fail(FailureClass::kInfra, absl::Minutes(30)),
            "restart.infra: 1 of 1 restarts are used up within 1h");
}

TEST_F(RetryPolicyTest, EachClassHasABudgetOfItsOwn) {
  limits().infra = 1;
  limits().hang = 1;
  limits().user = 1;
  EXPECT_EQ(Fail(FailureClass::kInfra), "after 0 as infra");
  EXPECT_EQ(Fail(FailureClass::kHang), "after 0 as hang");
  EXPECT_EQ(Fail(FailureClass::kUser), "after 0 as user");
  EXPECT_THAT(Fail(FailureClass::kUser), HasSubstr("used up"));
}

TEST_F(RetryPolicyTest, WantOfMemoryIsTheProgramsFailureUnlessItHasABudget) {
  limits().user = 1;
  EXPECT_EQ(Fail(FailureClass::kOom), "after 0 as user");
  limits().oom = 1;
  EXPECT_EQ(Fail(FailureClass::kOom), "after 0 as oom");
  EXPECT_THAT(Fail(FailureClass::kOom, absl::Minutes(5)), HasSubstr("restart.oom: 1 of 1"));
}

TEST_F(RetryPolicyTest, APreemptionCostsNothing) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(FailToStart(FailureClass::kPreempt), "after 0 as nothing");
  }
}

TEST_F(RetryPolicyTest, GenerationsThatNeverRanAreFewWhateverEndsThem) {
  limits().user = 100;
  limits().startup = 2;
  EXPECT_EQ(FailToStart(FailureClass::kInfra), "after 0 as infra");
  EXPECT_EQ(FailToStart(FailureClass::kStartup), "after 1s as user");
  EXPECT_EQ(FailToStart(FailureClass::kUser),
            "restart.startup is 2, and 3 generations in a row have ended before all ranks were "
            "there");
}

TEST_F(RetryPolicyTest, AGenerationThatRanForgivesThoseThatDidNot) {
  limits().user = 100;
  limits().startup = 1;
  EXPECT_EQ(FailToStart(FailureClass::kUser), "after 0 as user");
  EXPECT_EQ(Fail(FailureClass::kUser), "after 0 as user");
  EXPECT_EQ(FailToStart(FailureClass::kUser), "after 0 as user");
}

TEST_F(RetryPolicyTest, RanksThatJoinAndNeverStepCountAsThoseThatNeverCame) {
  limits().startup = 2;
  EXPECT_EQ(FailBeforeTheFirstStep(), "after 0 as infra");
  EXPECT_EQ(FailToStart(FailureClass::kInfra), "after 0 as infra");
  EXPECT_EQ(FailBeforeTheFirstStep(),
            "restart.startup is 2, and 3 generations in a row have ended before the first step was "
            "done");
}

TEST_F(RetryPolicyTest, AStepForgivesGenerationsWithoutOne) {
  limits().startup = 1;
  EXPECT_EQ(FailBeforeTheFirstStep(), "after 0 as infra");
  EXPECT_EQ(Fail(FailureClass::kInfra), "after 0 as infra");
  EXPECT_EQ(FailBeforeTheFirstStep(), "after 0 as infra");
}

TEST_F(RetryPolicyTest, ACheckpointIsWordOfAStep) {
  limits().startup = 0;
  const RankKey next{job_.id, Generation(job_.generation.value() + 1), 0};
  job_.checkpoints.Register({next, 400, "/checkpoints/400", "", 1, 1}, now_);
  EXPECT_EQ(FailBeforeTheFirstStep(), "after 0 as infra");
}

TEST_F(RetryPolicyTest, ExitCodesDecideBeforeBudgets) {
  limits().user = 1;
  limits().never_exit_codes = {93, 137};
  limits().always_exit_codes = {33, 93};
  EXPECT_EQ(Fail(FailureClass::kUser, absl::Hours(1), {Exit::How::kCode, 33}),
            "after 0 as nothing");
  EXPECT_EQ(Fail(FailureClass::kUser, absl::Hours(1), {Exit::How::kCode, 93}),
            "restart.neverRetryExitCodes has 93");
  EXPECT_EQ(Fail(FailureClass::kUser, absl::Hours(1), {Exit::How::kSignal, 9}),
            "restart.neverRetryExitCodes has 137");
}

TEST_F(RetryPolicyTest, TheExitOfARankThatItsWorkerStoppedSaysNothing) {
  limits().never_exit_codes = {143};
  EXPECT_EQ(Fail(FailureClass::kInfra, absl::Hours(1), {Exit::How::kSignal, 15}),
            "after 0 as infra");
}

TEST_F(RetryPolicyTest, ShortLivedGenerationsBackOffUpToAMinute) {
  limits().user = 100;
  std::string waits;
  for (int i = 0; i < 9; ++i) {
    absl::StrAppend(&waits, Fail(FailureClass::kUser, absl::Seconds(5)).substr(6, 3), " ");
  }
  EXPECT_EQ(waits, "0 a 1s  2s  4s  8s  16s 32s 1m  1m  ");
  EXPECT_EQ(Fail(FailureClass::kUser, absl::Hours(1)), "after 0 as user");
}

TEST_F(RetryPolicyTest, AGenerationThatHasLeftACheckpointNeedsNoBackOff) {
  limits().user = 100;
  for (int i = 0; i < 3; ++i) Fail(FailureClass::kUser, absl::Seconds(5));
  const RankKey next{job_.id, Generation(job_.generation.value() + 1), 0};
  job_.checkpoints.Register({next, 400, "/checkpoints/400", "", 1, 1}, now_);
  EXPECT_EQ(Fail(FailureClass::kUser, absl::Seconds(5)), "after 0 as user");
}

TEST_F(RetryPolicyTest, BudgetsTellWhatIsUsed) {
  limits().oom = 4;
  Fail(FailureClass::kInfra);
  std::string told;
  for (const RestartBudget& budget : BudgetsOf(job_, now_)) {
    absl::StrAppend(&told, Name(budget.failure_class), " ", budget.used, "/", budget.limit, " ");
  }
  EXPECT_EQ(told, "user 0/0 infra 1/10 hang 0/3 oom 0/4 ");
}

}  // namespace
}  // namespace dp::core
