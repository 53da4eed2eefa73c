#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/coordinator.h"
#include "server/core/digest.h"
#include "server/journal/convert_state.h"

namespace dp::server {
namespace {

// The snapshot of a registry with one job.
journal::Snapshot OneJob() {
  core::Coordinator coordinator;
  coordinator.Apply({absl::UnixEpoch(), core::StartEpoch{}});
  coordinator.Apply({absl::UnixEpoch(), core::SubmitJob{"request", {.name = "job"}}});
  const std::vector<std::string> pieces = ToPieces(coordinator.state(), size_t{1} << 20);
  EXPECT_EQ(pieces.size(), 1u);
  journal::Snapshot snapshot;
  EXPECT_TRUE(snapshot.ParseFromString(pieces.at(0)));
  return snapshot;
}

TEST(SaveStateTest, NoPieceIsEmpty) {
  core::Coordinator coordinator;
  coordinator.Apply({absl::UnixEpoch(), core::SubmitJob{"request", {.name = "job"}}});
  const std::vector<std::string> pieces = ToPieces(coordinator.state(), 1);
  EXPECT_GT(pieces.size(), 2u);
  EXPECT_THAT(pieces, ::testing::Not(::testing::Contains("")));
  EXPECT_THAT(ToPieces({}, 1), ::testing::SizeIs(1));
}

TEST(LoadStateTest, SecretsStaySealedAndAreGoneAfterTheEndOfTheJob) {
  core::Coordinator coordinator;
  core::SubmitJob submit{"request", {.name = "job"}};
  submit.secrets = {{"TOKEN", std::string("\0\xff", 2)}};
  coordinator.Apply({absl::UnixEpoch(), submit});
  const auto before = FromPieces(ToPieces(coordinator.state(), 1));
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->jobs.Find(JobId(1))->secrets, submit.secrets);
  EXPECT_EQ(core::DigestOf(*before), core::DigestOf(coordinator.state()));
  EXPECT_EQ(before->jobs.spec_bytes(), coordinator.state().jobs.spec_bytes());
  coordinator.Apply({absl::UnixEpoch(), core::CancelJob{JobId(1)}});
  const auto after = FromPieces(ToPieces(coordinator.state(), 1));
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(after->jobs.Find(JobId(1))->secrets.empty());
  EXPECT_NE(core::DigestOf(*after), core::DigestOf(*before));
}

TEST(LoadStateTest, ABudgetThatThisReleaseDoesNotKnowIsRefusedAndNoneIsNone) {
  journal::Snapshot snapshot = OneJob();
  journal::SavedPastFailure* past = snapshot.mutable_jobs(0)->add_past();
  past->mutable_failure()->set_failure_class(v1::FAILURE_CLASS_USER);
  const auto free = FromPieces({snapshot.SerializeAsString()});
  ASSERT_TRUE(free.ok()) << free.status();
  past->set_counted_as(static_cast<v1::FailureClass>(99));
  const absl::Status status = FromPieces({snapshot.SerializeAsString()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("counted_as is 99"));
}

}  // namespace
}  // namespace dp::server
