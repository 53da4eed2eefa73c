#include "server/driver/element_offers.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using core::Topic;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = Topic::Kind;
using Wake = Waiters::Wake;

constexpr absl::Duration kPromise = absl::Seconds(10);

absl::Time Second(int second) { return absl::UnixEpoch() + absl::Seconds(second); }

// Queues of two jobs, calls that wait for their elements, and the steps of a driver's turn.
class ElementOffersTest : public ::testing::Test {
 protected:
  static Topic Queue(uint64_t job = 1) { return {Kind::kStoreElement, job, "q"}; }

  // Parks a call that any element answers.
  void Park(Waiters::Ticket ticket) {
    const auto question = [this, ticket](Wake wake, Waiters::Changed changed) {
      if (wake == Wake::kChanged && changed.empty()) return false;
      if (wake == Wake::kChanged) told_.push_back(ticket);
      return true;
    };
    offers_.OnParked({Queue()});
    waiters_.Park({ticket, {Queue()}, absl::InfiniteFuture(), question, std::nullopt});
  }
  void Push(int count) {
    elements_ += count;
    for (int i = 0; i < count; ++i) offers_.OnChange(Queue());
  }
  void Pop() {
    --elements_;
    offers_.OnChange({Kind::kStoreTaken, 1, "q"});
  }
  // Returns the calls that got an offer.
  std::vector<Waiters::Ticket> Offer(int at = 0) {
    told_.clear();
    const auto length = [this](const Topic& queue) -> size_t {
      return queue.id == 1 ? elements_ : 0;
    };
    offers_.Offer(Second(at), length, waiters_);
    return told_;
  }

  Waiters waiters_{Waiters::Capacity{}};
  ElementOffers offers_{kPromise};
  size_t elements_ = 0;
  std::vector<Waiters::Ticket> told_;
};

TEST_F(ElementOffersTest, EachElementIsForOneOfThoseWhoWait) {
  Park(1), Park(2), Park(3);
  Push(2);
  EXPECT_THAT(Offer(), ElementsAre(1, 2));
  EXPECT_THAT(Offer(), IsEmpty());
}

TEST_F(ElementOffersTest, WhoIsParkedLaterIsNotToldOfAnElementThatIsAnothers) {
  Park(1);
  Push(1);
  EXPECT_THAT(Offer(), ElementsAre(1));
  Park(2);
  EXPECT_THAT(Offer(), IsEmpty());
  Pop();
  Push(1);
  EXPECT_THAT(Offer(), ElementsAre(2));
}

TEST_F(ElementOffersTest, WhoIsParkedLaterIsToldOfAnElementThatCameWhenNobodyWaited) {
  Push(1);
  EXPECT_THAT(Offer(), IsEmpty());
  Park(1), Park(2);
  EXPECT_THAT(Offer(), ElementsAre(1));
}

TEST_F(ElementOffersTest, AnElementIsOfferedToTheNextWhenNobodyTakesIt) {
  Park(1), Park(2);
  Push(1);
  EXPECT_THAT(Offer(0), ElementsAre(1));
  EXPECT_EQ(offers_.next_deadline(), Second(10));
  EXPECT_THAT(Offer(9), IsEmpty());
  EXPECT_THAT(Offer(10), ElementsAre(2));
  EXPECT_EQ(offers_.next_deadline(), Second(20));
}

TEST_F(ElementOffersTest, WhatWasTakenIsPromisedToNobody) {
  Park(1), Park(2);
  Push(2);
  Offer(0);
  Pop(), Pop();
  EXPECT_EQ(offers_.next_deadline(), absl::InfiniteFuture());
}

TEST_F(ElementOffersTest, AStoreThatEndsTakesItsPromisesWithIt) {
  Park(1);
  Push(1);
  Offer();
  for (const uint64_t other : {0, 2}) offers_.OnChange({Kind::kWorldState, other, ""});
  EXPECT_EQ(offers_.next_deadline(), Second(10));
  offers_.OnChange({Kind::kWorldState, 1, ""});
  EXPECT_EQ(offers_.next_deadline(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace dp::server
