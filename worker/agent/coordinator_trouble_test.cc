#include "worker/agent/coordinator_trouble.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "client/retry_policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;
using testing::Not;

const absl::Status kLimited = client::RetryNotBefore(
    absl::Milliseconds(200), absl::UnavailableError("worker w makes more than 50 calls a second"));

class CoordinatorTroubleTest : public testing::Test {
 protected:
  std::string LogOf(const absl::Status& status) {
    testing::internal::CaptureStderr();
    trouble_.Failed(status);
    return testing::internal::GetCapturedStderr();
  }
  std::string LogOfSuccess() {
    testing::internal::CaptureStderr();
    trouble_.Worked();
    return testing::internal::GetCapturedStderr();
  }

  CoordinatorTrouble trouble_;
};

TEST_F(CoordinatorTroubleTest, ARateLimitIsLoggedAsOneAndOnce) {
  const std::string log = LogOf(kLimited);
  EXPECT_THAT(log, HasSubstr("event=rate_limited reason=\"worker w makes more than 50 calls"));
  EXPECT_THAT(log, Not(HasSubstr("not-before")));
  EXPECT_EQ(LogOf(kLimited), "");
  EXPECT_THAT(LogOfSuccess(), HasSubstr("event=rate_limited_over"));
  EXPECT_THAT(LogOf(kLimited), HasSubstr("event=rate_limited"));
}

TEST_F(CoordinatorTroubleTest, OtherErrorsMeanThatTheCoordinatorIsOutOfReach) {
  const absl::Status refused = absl::UnavailableError("connection refused");
  EXPECT_THAT(LogOf(refused), HasSubstr("event=coordinator_unreachable"));
  EXPECT_EQ(LogOf(refused), "");
  EXPECT_THAT(LogOfSuccess(), HasSubstr("event=coordinator_unreachable_over"));
  EXPECT_EQ(LogOfSuccess(), "");
}

}  // namespace
}  // namespace dp::worker
