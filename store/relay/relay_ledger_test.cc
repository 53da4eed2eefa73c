#include "store/relay/relay_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "store/key_values.h"
#include "store/operation_bytes.h"

namespace dp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A ledger, and a coordinator whose store applies each group of its batches atomically.
class RelayLedgerTest : public testing::Test {
 protected:
  // "1: 2,1" for sequence 1 and groups of two operations and one.
  std::string batch() {
    const RelayLedger::Batch* batch = ledger_->batch();
    if (batch == nullptr) return "none";
    return absl::StrCat(batch->sequence, ": ", absl::StrJoin(batch->groups, ","));
  }

  // The coordinator's reply to the batch in flight.
  RelayLedger::Reply Apply() {
    RelayLedger::Reply reply;
    const RelayLedger::Batch& batch = *ledger_->batch();
    auto next = batch.operations.begin();
    for (size_t i = 0; i < batch.groups.size(); ++i) {
      const std::vector<StoreOperation> group(next, next + batch.groups[i]);
      next += batch.groups[i];
      auto applied = store_.Apply(group);
      if (!applied.ok()) reply.refusals.push_back({i, applied.status()});
      auto results = applied.ok() ? applied->results : std::vector<StoreResult>(batch.groups[i]);
      reply.results.insert(reply.results.end(), results.begin(), results.end());
    }
    return reply;
  }

  // "1 ok", "2 INVALID_ARGUMENT: ..." for each caller that the reply answers.
  std::vector<std::string> Describe(const std::vector<RelayLedger::Answer>& answers) {
    std::vector<std::string> lines;
    for (const RelayLedger::Answer& answer : answers) {
      lines.push_back(absl::StrCat(
          answer.caller, " ", answer.results.ok() ? "ok" : answer.results.status().ToString()));
    }
    return lines;
  }
  std::vector<std::string> Answer() { return Describe(*ledger_->OnReply(Apply())); }

  std::vector<uint64_t> parked() {
    std::vector<uint64_t> callers;
    for (const RelayLedger::Parking& parking : ledger_->TakeParkings()) {
      callers.push_back(parking.caller);
    }
    return callers;
  }

  std::unique_ptr<RelayLedger> ledger_ = std::make_unique<RelayLedger>();
  KeyValues store_;
};

TEST_F(RelayLedgerTest, WhateverComesWhileABatchIsUnderWayMakesTheNextOne) {
  ledger_->Execute(1, {StoreAdd{"n", 1}});
  EXPECT_EQ(batch(), "1: 1");
  ledger_->Execute(2, {StoreAdd{"n", 1}});
  ledger_->Execute(3, {StoreSet{"a", "x"}, StoreSet{"b", "y"}});
  EXPECT_EQ(batch(), "1: 1");  // unchanged, in case it is sent again
  EXPECT_THAT(Answer(), ElementsAre("1 ok"));
  EXPECT_EQ(batch(), "2: 1,2");
  EXPECT_THAT(Answer(), ElementsAre("2 ok", "3 ok"));
  EXPECT_EQ(batch(), "none");
}

TEST_F(RelayLedgerTest, ABatchThatOnlyReadsHasNoSequence) {
  ledger_->Execute(1, {StoreGet{"n"}});
  EXPECT_EQ(batch(), "0: 1");
  Answer();
  ledger_->Execute(2, {StoreAdd{"n", 1}});
  EXPECT_EQ(batch(), "1: 1");
}

TEST_F(RelayLedgerTest, AGroupThatIsRefusedHarmsNoOther) {
  ledger_->Execute(1, {StoreSet{"word", "x"}});
  ledger_->Execute(2, {StoreAdd{"word", 1}});
  ledger_->Execute(3, {StoreAdd{"n", 5}});
  EXPECT_THAT(Answer(), ElementsAre("1 ok", testing::StartsWith("2 INVALID_ARGUMENT"), "3 ok"));
  EXPECT_EQ(*store_.Find("n"), "5");
}

TEST_F(RelayLedgerTest, WhatTheCoordinatorLeftOutGoesFirstIntoTheNextBatch) {
  ledger_->Execute(1, {StoreAdd{"n", 1}});
  ledger_->Execute(2, {StoreAdd{"n", 1}});
  ledger_->batch();
  ledger_->Execute(3, {StoreGet{"n"}});
  EXPECT_THAT(Describe(*ledger_->OnReply({{StoreResult{}}, {}})), ElementsAre("1 ok"));
  EXPECT_EQ(batch(), "2: 1,1");
  EXPECT_THAT(Answer(), ElementsAre("2 ok", "3 ok"));
}

TEST_F(RelayLedgerTest, AReplyThatCutsAGroupIsABug) {
  ledger_->Execute(1, {StoreAdd{"n", 1}, StoreAdd{"n", 1}});
  ledger_->batch();
  EXPECT_EQ(ledger_->OnReply({{StoreResult{}}, {}}).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(batch(), "1: 2");
}

// With batches of at most two operations and 1000 bytes.
class SmallBatchesTest : public RelayLedgerTest {
 protected:
  SmallBatchesTest() {
    ledger_ = std::make_unique<RelayLedger>(RelayLedger::Limits{.operations = 2, .bytes = 1000});
  }
};

TEST_F(SmallBatchesTest, ABatchIsBounded) {
  for (int caller = 1; caller <= 3; ++caller) ledger_->Execute(caller, {StoreGet{"a"}});
  EXPECT_EQ(batch(), "0: 1,1");
  EXPECT_THAT(Answer(), ElementsAre("1 ok", "2 ok"));
  EXPECT_EQ(batch(), "0: 1");
}

TEST_F(SmallBatchesTest, WhatCannotBeDividedGoesAlone) {
  ledger_->Execute(1, {StoreGet{"n"}});
  ledger_->Execute(2, {StoreAdd{"n", 1}, StoreAdd{"n", 1}, StoreGet{"n"}});
  EXPECT_EQ(batch(), "0: 1");
  Answer();
  EXPECT_EQ(batch(), "1: 3");
}

TEST_F(SmallBatchesTest, ManySetsGoInSeveralBatchesBeforeAnythingElse) {
  ledger_->Execute(1, {StoreSet{"a", "1"}, StoreSet{"b", "2"}, StoreSet{"c", "3"}});
  ledger_->Execute(2, {StoreSet{"c", "4"}});
  EXPECT_EQ(batch(), "1: 2");
  EXPECT_THAT(Answer(), IsEmpty());
  EXPECT_EQ(batch(), "2: 1,1");
  EXPECT_THAT(Answer(), ElementsAre("1 ok", "2 ok"));
  EXPECT_EQ(*store_.Find("c"), "4");
}

TEST_F(SmallBatchesTest, ALargeOperationGoesAlone) {
  ledger_->Execute(1, {StoreSet{"a", std::string(5000, 'x')}, StoreSet{"b", "2"}});
  EXPECT_EQ(batch(), "1: 1");
  Answer();
  EXPECT_EQ(batch(), "2: 1");
  EXPECT_THAT(Answer(), ElementsAre("1 ok"));
}

TEST_F(RelayLedgerTest, WhatCannotBeDividedMayFillAMessageAndNoMore) {
  const std::vector<StoreOperation> group = {StoreAdd{"n", 1}, StoreGet{"n"}};
  const size_t bytes = BytesOf(group[0]) + BytesOf(group[1]);
  EXPECT_TRUE(RelayLedger({.indivisible_bytes = bytes}).CheckSize(group).ok());
  EXPECT_THAT(RelayLedger({.indivisible_bytes = bytes - 1}).CheckSize(group).message(),
              testing::HasSubstr(absl::StrCat(bytes, " bytes or more")));
}

TEST_F(SmallBatchesTest, ReadsThatTheCoordinatorDividedAreAnsweredTogether) {
  ledger_->Execute(1, {StoreGet{"a"}, StoreGet{"b"}});
  ledger_->batch();
  EXPECT_THAT(*ledger_->OnReply({{StoreResult{.value = "1"}}, {}}), IsEmpty());
  EXPECT_EQ(batch(), "0: 1");
  const auto answers = *ledger_->OnReply({{StoreResult{.value = "2"}}, {}});
  EXPECT_EQ(answers.at(0).results->at(0).value, "1");
  EXPECT_EQ(answers.at(0).results->at(1).value, "2");
}

TEST_F(SmallBatchesTest, OfALargeWaitTheFirstReadsAreParkedAndThenTheRest) {
  ledger_->Await(1, {StoreGet{"a"}, StoreGet{"b"}, StoreGet{"c"}});
  Answer(), Answer();
  EXPECT_EQ(ledger_->TakeParkings().at(0).reads.size(), 2u);
  const StoreResult found{.found = true};
  EXPECT_FALSE(ledger_->OnFound(1, {found, found}).has_value());
  EXPECT_EQ(batch(), "none");
  EXPECT_EQ(ledger_->TakeParkings().at(0).reads.size(), 1u);
  EXPECT_EQ(ledger_->OnFound(1, {found})->results->size(), 3u);
}

TEST_F(RelayLedgerTest, AWaitThatIsRefusedIsAnsweredOnceAndNotWhenItWasCancelled) {
  ledger_->Await(1, {StoreGet{"a"}});
  ledger_->Await(2, {StoreGet{"a"}});
  ledger_->batch();
  ledger_->Cancel(2);
  const absl::Status no = absl::ResourceExhaustedError("no");
  const auto answers = *ledger_->OnReply({{StoreResult{}, StoreResult{}}, {{0, no}, {1, no}}});
  EXPECT_THAT(Describe(answers), ElementsAre("1 RESOURCE_EXHAUSTED: no"));
  EXPECT_THAT(ledger_->End(no), IsEmpty());
}

TEST_F(RelayLedgerTest, AWaitSeesWhatItsCallerDidBefore) {
  ledger_->Execute(1, {StoreSet{"k", "v"}});
  ledger_->Await(2, {StoreGet{"k"}});
  EXPECT_EQ(batch(), "1: 1,1");
  EXPECT_THAT(Answer(), ElementsAre("1 ok", "2 ok"));
  EXPECT_THAT(parked(), IsEmpty());
}

TEST_F(RelayLedgerTest, AWaitThatFindsNothingIsParkedOnceAndAnsweredWhenFound) {
  ledger_->Await(1, {StoreGet{"k"}});
  EXPECT_THAT(Answer(), IsEmpty());
  EXPECT_THAT(parked(), ElementsAre(1));
  EXPECT_THAT(parked(), IsEmpty());
  EXPECT_EQ(batch(), "none");
  const auto answer = ledger_->OnFound(1, {StoreResult{.found = true, .value = "v"}});
  EXPECT_EQ((*answer->results)[0].value, "v");
  EXPECT_THAT(ledger_->End(absl::CancelledError("")), IsEmpty());
}

TEST_F(RelayLedgerTest, AWaitWhoseParkingWasLostAsksAgain) {
  ledger_->Await(1, {StoreGet{"k"}});
  Answer(), parked();
  ASSERT_TRUE(store_.Apply(std::vector<StoreOperation>{StoreSet{"k", "v"}}).ok());
  ledger_->OnUnparked(1);
  EXPECT_EQ(batch(), "0: 1");
  EXPECT_THAT(Answer(), ElementsAre("1 ok"));
}

TEST_F(RelayLedgerTest, WhatAWaitHasFoundStaysFound) {
  ASSERT_TRUE(store_.Apply(std::vector<StoreOperation>{StoreSet{"a", "1"}}).ok());
  ledger_->Await(1, {StoreGet{"a"}, StoreGet{"b"}});
  Answer();
  const auto parkings = ledger_->TakeParkings();
  ASSERT_EQ(parkings.at(0).reads.size(), 1);
  EXPECT_EQ(std::get<StoreGet>(parkings[0].reads[0]).key, "b");
  const auto answer = ledger_->OnFound(1, {StoreResult{.found = true, .value = "2"}});
  EXPECT_EQ((*answer->results)[0].value, "1");
  EXPECT_EQ((*answer->results)[1].value, "2");
}

TEST_F(RelayLedgerTest, WhatAParkingHasFoundStaysFoundWhenItsTimeIsOver) {
  ledger_->Await(1, {StoreGet{"a"}, StoreGet{"b"}});
  Answer(), parked();
  EXPECT_FALSE(
      ledger_->OnFound(1, {StoreResult{.found = true, .value = "1"}, StoreResult{}}).has_value());
  EXPECT_EQ(batch(), "none");
  const auto parkings = ledger_->TakeParkings();
  ASSERT_EQ(parkings.at(0).reads.size(), 1u);
  EXPECT_EQ(std::get<StoreGet>(parkings[0].reads[0]).key, "b");
}

TEST_F(RelayLedgerTest, ACancelledWaitIsNeitherAnsweredNorParked) {
  ledger_->Await(1, {StoreGet{"k"}});
  ledger_->Await(2, {StoreGet{"k"}});
  ledger_->batch();
  EXPECT_TRUE(ledger_->Cancel(1));
  EXPECT_FALSE(ledger_->Cancel(1));
  EXPECT_THAT(Answer(), IsEmpty());
  EXPECT_THAT(parked(), ElementsAre(2));
  EXPECT_TRUE(ledger_->Cancel(2));
  EXPECT_FALSE(ledger_->OnFound(2, {StoreResult{.found = true}}).has_value());
  EXPECT_THAT(ledger_->End(absl::CancelledError("")), IsEmpty());
}

TEST_F(RelayLedgerTest, TheEndAnswersEachCallOnce) {
  ledger_->Execute(1, {StoreAdd{"n", 1}});
  ledger_->Await(2, {StoreGet{"k"}});
  ledger_->batch();
  ledger_->Execute(3, {StoreAdd{"n", 1}});
  ledger_->Await(4, {StoreGet{"k"}});
  EXPECT_THAT(Describe(ledger_->End(absl::CancelledError("over"))),
              ElementsAre("1 CANCELLED: over", "3 CANCELLED: over", "2 CANCELLED: over",
                          "4 CANCELLED: over"));
  EXPECT_EQ(batch(), "none");
  EXPECT_THAT(ledger_->End(absl::CancelledError("")), IsEmpty());
}

}  // namespace
}  // namespace dp
