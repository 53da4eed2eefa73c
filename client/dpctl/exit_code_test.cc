#include "client/dpctl/exit_code.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

int CodeOf(const std::string& text) {
  v1::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
  return ExitCodeOf(job);
}

TEST(ExitCodeTest, AJobThatIsOverPassesItsResultOn) {
  EXPECT_EQ(CodeOf("state: JOB_STATE_SUCCEEDED"), 0);
  EXPECT_EQ(CodeOf("state: JOB_STATE_CANCELLED failure { failure_class: FAILURE_CLASS_CANCEL }"),
            103);
  EXPECT_EQ(CodeOf("state: JOB_STATE_FAILED failure { failure_class: FAILURE_CLASS_INFRA }"), 100);
  EXPECT_EQ(CodeOf("state: JOB_STATE_FAILED failure { failure_class: FAILURE_CLASS_STARTUP }"),
            100);
}

TEST(ExitCodeTest, AProgramsOwnCodeAndSignalAreKept) {
  const std::string user = "state: JOB_STATE_FAILED failure { failure_class: FAILURE_CLASS_USER ";
  EXPECT_EQ(CodeOf(user + "exit { code: 3 } }"), 3);
  EXPECT_EQ(CodeOf(user + "exit { code: 102 } }"), 102);
  EXPECT_EQ(CodeOf(user + "exit { signal: 9 } }"), 137);
  EXPECT_EQ(CodeOf(user + "exit { code: 0 } }"), 100);
}

TEST(ExitCodeTest, ErrorsOfTheCommandHaveTheirCodes) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), 102);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), 104);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("")), 104);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("")), 1);
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError("")), 1);
}

}  // namespace
}  // namespace dp::ctl
