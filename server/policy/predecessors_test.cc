#include "server/policy/predecessors.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/policy/liveness.h"
#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class PredecessorsTest : public CoordinatorFixture {
 protected:
  PredecessorsTest() { liveness_.Welcome(a_, life(a_), now_); }

  // The incarnations that are lost when a new daemon registers.
  std::vector<LoseWorker> Come(const std::string& name, std::vector<Incarnation> replaces) {
    RegisterWorker worker{name, "host", "address", Incarnation(999), 1};
    worker.replaces = std::move(replaces);
    return PredecessorsOf(worker, coordinator_, liveness_, now_);
  }

  const WorkerId a_ = Register("a", 1, "a");
  Liveness liveness_{absl::Seconds(5)};
};

TEST_F(PredecessorsTest, ALifeThatIsProvenDeadEndsThoughItsLeaseHolds) {
  const auto lost = Come("a", {Incarnation(5), life(a_)});
  ASSERT_THAT(lost, SizeIs(1));
  EXPECT_EQ(lost[0].worker, a_);
  EXPECT_EQ(lost[0].incarnation, life(a_));
  EXPECT_THAT(lost[0].reason, HasSubstr("started again"));
}

TEST_F(PredecessorsTest, ADaemonThatComesUnderAnotherNameOrNoneEndsItToo) {
  EXPECT_THAT(Come("b", {life(a_)}), SizeIs(1));
  EXPECT_THAT(Come("", {life(a_)}), SizeIs(1));
}

TEST_F(PredecessorsTest, WithoutProofAHolderOfTheNameKeepsItWhileItsLeaseHolds) {
  EXPECT_THAT(Come("a", {}), IsEmpty());
  now_ += absl::Seconds(6);
  EXPECT_THAT(Come("a", {}), SizeIs(1));
  EXPECT_THAT(Come("b", {}), IsEmpty());
  EXPECT_THAT(Come("", {}), IsEmpty());
}

TEST_F(PredecessorsTest, ALifeThatIsOverEndsNoSecondTime) {
  Lose(a_);
  now_ += absl::Seconds(6);
  EXPECT_THAT(Come("a", {life(a_)}), IsEmpty());
}

TEST_F(PredecessorsTest, ADaemonThatJoinsUnderTheNameOfASilentOneEndsIt) {
  UseToken joins{.identity = {security::Role::kWorker, "a"}};
  EXPECT_EQ(PredecessorOf(joins, coordinator_, liveness_, now_), std::nullopt);  // it lives
  now_ += absl::Seconds(6);
  const auto lost = PredecessorOf(joins, coordinator_, liveness_, now_);
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->worker, a_);
  EXPECT_EQ(lost->incarnation, life(a_));
  EXPECT_THAT(lost->reason, HasSubstr("another daemon came under its name"));
  joins.identity.role = security::Role::kUser;  // a person called a
  EXPECT_EQ(PredecessorOf(joins, coordinator_, liveness_, now_), std::nullopt);
  joins.identity = {security::Role::kWorker, ""};
  EXPECT_EQ(PredecessorOf(joins, coordinator_, liveness_, now_), std::nullopt);
}

TEST_F(PredecessorsTest, NobodyReplacesItself) {
  RegisterWorker again{"a", "host", "address", life(a_), 1};
  again.replaces = {life(a_)};
  now_ += absl::Seconds(6);
  EXPECT_THAT(PredecessorsOf(again, coordinator_, liveness_, now_), IsEmpty());
}

}  // namespace
}  // namespace dp::core
