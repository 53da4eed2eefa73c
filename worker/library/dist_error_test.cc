#include "worker/library/dist_error.h"

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/failure.h"

namespace dp::library {
namespace {

using distributed::DistError;
using distributed::ErrorKind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

ErrorKind KindOf(const absl::Status& status, ErrorSource source = ErrorSource::kCaller) {
  return DistErrorOf(status, source).kind();
}

TEST(DistErrorTest, EveryCodeHasAKind) {
  EXPECT_EQ(KindOf(absl::InvalidArgumentError("")), ErrorKind::kInvalidArgument);
  EXPECT_EQ(KindOf(absl::NotFoundError("")), ErrorKind::kInvalidArgument);
  EXPECT_EQ(KindOf(absl::PermissionDeniedError("")), ErrorKind::kInvalidArgument);
  EXPECT_EQ(KindOf(absl::UnauthenticatedError("")), ErrorKind::kInvalidArgument);
  EXPECT_EQ(KindOf(absl::UnimplementedError("")), ErrorKind::kUnsupported);
  EXPECT_EQ(KindOf(absl::FailedPreconditionError("")), ErrorKind::kWrongState);
  EXPECT_EQ(KindOf(absl::AlreadyExistsError("")), ErrorKind::kWrongState);
  EXPECT_EQ(KindOf(absl::DeadlineExceededError("")), ErrorKind::kTimeout);
  EXPECT_EQ(KindOf(absl::DataLossError("")), ErrorKind::kUnreachable);
  EXPECT_EQ(KindOf(absl::CancelledError("")), ErrorKind::kAborted);
  EXPECT_EQ(KindOf(absl::AbortedError("")), ErrorKind::kAborted);
  EXPECT_EQ(KindOf(absl::ResourceExhaustedError("")), ErrorKind::kLimit);
  EXPECT_EQ(KindOf(absl::InternalError("")), ErrorKind::kInternal);
}

TEST(DistErrorTest, AnOperationGivesSomeCodesAnotherMeaning) {
  EXPECT_EQ(KindOf(absl::UnavailableError(""), ErrorSource::kStore), ErrorKind::kUnreachable);
  EXPECT_EQ(KindOf(absl::UnavailableError(""), ErrorSource::kOperation), ErrorKind::kPeerGone);
  EXPECT_EQ(KindOf(absl::InvalidArgumentError(""), ErrorSource::kOperation), ErrorKind::kMismatch);
}

TEST(DistErrorTest, ATimeoutNamesTheMissingRanksAndTheRemedy) {
  const absl::Status late = engine::DidNotArrive("all_reduce 3", {1, 4}, absl::Seconds(5));
  const DistError error = DistErrorOf(late, ErrorSource::kOperation, "group 'a', rank 0");
  EXPECT_THAT(error.missing_ranks(), ElementsAre(1, 4));
  EXPECT_STREQ(error.what(),
               "group 'a', rank 0: all_reduce 3: ranks 1, 4 did not arrive within 5s; check that "
               "every rank runs and calls the same operations, or raise the timeout");
}

TEST(DistErrorTest, APeerThatIsGoneIsAmongTheMissingRanks) {
  const DistError error =
      DistErrorOf(engine::WentAway("barrier 2", {3}), ErrorSource::kOperation, "group 'a', rank 0");
  EXPECT_EQ(error.kind(), ErrorKind::kPeerGone);
  EXPECT_THAT(error.missing_ranks(), ElementsAre(3));
}

TEST(DistErrorTest, OrThrowReturnsTheValueOrThrows) {
  EXPECT_EQ(OrThrow(absl::StatusOr<int>(7), ErrorSource::kStore), 7);
  try {
    OrThrow(absl::StatusOr<int>(absl::NotFoundError("no such key")), ErrorSource::kStore);
    FAIL() << "did not throw";
  } catch (const DistError& error) {
    EXPECT_STREQ(error.what(), "no such key");
    EXPECT_THAT(error.missing_ranks(), IsEmpty());
  }
}

}  // namespace
}  // namespace dp::library
