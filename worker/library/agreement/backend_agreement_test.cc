#include "worker/library/agreement/backend_agreement.h"

#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/library/agreement/unanimity.h"

namespace dp::library {
namespace {

class BackendAgreementTest : public ::testing::Test {
 protected:
  absl::Status Agree(int rank, absl::string_view backend) {
    return AgreeOnBackend(keys_, objections_, rank, backend);
  }
  // As the other ranks learn it.
  absl::Status Heard() { return BackendsDiffer(Unanimity(objections_, 0, {}).Objection().value()); }

  HashStore keys_, objections_;
};

TEST_F(BackendAgreementTest, RanksThatAgreeHaveNoObjection) {
  EXPECT_TRUE(Agree(2, "gloo").ok());
  EXPECT_TRUE(Agree(0, "gloo").ok());
  EXPECT_TRUE(Heard().ok());
}

TEST_F(BackendAgreementTest, ARankThatDiffersFromTheFirstTellsAll) {
  const absl::Status differ =
      absl::InvalidArgumentError("backends differ: rank 2 gives my cards, rank 1 gives shm");
  EXPECT_TRUE(Agree(2, "my cards").ok());
  EXPECT_EQ(Agree(1, "shm"), differ);
  EXPECT_EQ(Heard(), differ);
}

TEST_F(BackendAgreementTest, TheFirstDifferenceIsThatOfAllOthers) {
  EXPECT_TRUE(Agree(2, "gloo").ok());
  const absl::Status first = Agree(1, "shm");
  EXPECT_FALSE(Agree(0, "mpi").ok());
  EXPECT_EQ(Heard(), first);
}

TEST_F(BackendAgreementTest, AnotherObjectionSaysNothingOfBackends) {
  EXPECT_TRUE(Unanimity(objections_, 1, {}).Object("rank 1 could not join: no card").ok());
  EXPECT_TRUE(Heard().ok());
}

}  // namespace
}  // namespace dp::library
