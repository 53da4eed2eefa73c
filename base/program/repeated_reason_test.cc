#include "base/program/repeated_reason.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

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

}  // namespace
}  // namespace dp
