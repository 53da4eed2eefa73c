#include "base/program/repeated_reason.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Status kRefused = absl::UnavailableError("connection refused");
const absl::Status kShutdown = absl::UnavailableError("handshaker shutdown");

TEST(RepeatedReasonTest, ReasonsThatTakeTurnsAreLoggedOnceEach) {
  RepeatedReason trouble("test");
  EXPECT_TRUE(trouble.Failed(kRefused));
  EXPECT_TRUE(trouble.Failed(kShutdown));
  EXPECT_FALSE(trouble.Failed(kRefused));
}

TEST(RepeatedReasonTest, AReasonIsNewAgainAfterASuccess) {
  RepeatedReason trouble("test");
  trouble.Failed(kRefused);
  trouble.Worked();
  EXPECT_TRUE(trouble.Failed(kRefused));
}

TEST(RepeatedReasonTest, ReasonsThatNeverRepeatAreNotLoggedForEver) {
  RepeatedReason trouble("test");
  int logged = 0;
  for (int i = 0; i < 100; ++i) logged += trouble.Failed(absl::InternalError(absl::StrCat(i)));
  EXPECT_EQ(logged, 8);
}

TEST(RepeatedReasonTest, APayloadIsNotLogged) {
  absl::Status refused = kRefused;
  refused.SetPayload("dp/internal", absl::Cord("1s"));
  RepeatedReason trouble("test");
  testing::internal::CaptureStderr();
  trouble.Failed(refused);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("dp/internal")));
}

}  // namespace
}  // namespace dp
