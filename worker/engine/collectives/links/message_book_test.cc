#include "worker/engine/collectives/links/message_book.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Said = LinkFrame::Kind;

class MessageBookTest : public ::testing::Test {
 protected:
  void Send(MessageBook::Id id, int to, int tag, size_t bytes) {
    room_.resize(100);
    book_.Begin(id,
                {.sends = true, .peer = to, .tag = tag, .sent = absl::MakeSpan(room_).first(bytes)},
                &fx_);
  }
  void Receive(MessageBook::Id id, int from, int tag, size_t bytes) {
    room_.resize(100);
    book_.Begin(
        id,
        {.sends = false, .peer = from, .tag = tag, .received = absl::MakeSpan(room_).first(bytes)},
        &fx_);
  }
  absl::Status Hear(int peer, Said kind, int tag, uint64_t id, uint64_t bytes) {
    return book_.Heard(peer, {.kind = kind, .tag = tag, .id = id, .bytes = bytes}, &fx_);
  }
  // The wishes of the book since the last call, as "accept 7 to 2" and "ended 3".
  std::vector<std::string> Effects() {
    const char* const names[] = {"", "offer ", "accept ", "refuse ", "data ", "", ""};
    std::vector<std::string> words;
    for (const auto& out : fx_.out)
      words.push_back(names[static_cast<int>(out.frame.kind)] + std::to_string(out.frame.id) +
                      " to " + std::to_string(out.peer));
    for (const MessageBook::Id met : fx_.met) words.push_back("met " + std::to_string(met));
    for (const auto& ended : fx_.ended)
      words.push_back("ended " + std::to_string(ended.id) +
                      (ended.status.ok() ? "" : ": " + std::string(ended.status.message())));
    fx_ = {};
    return words;
  }

  std::vector<uint8_t> room_;
  MessageBook book_{1};
  MessageBook::Effects fx_;
};

TEST_F(MessageBookTest, ASenderOffersAndSendsOnceItIsAccepted) {
  Send(3, 2, 9, 10);
  EXPECT_THAT(Effects(), ElementsAre("offer 3 to 2"));
  EXPECT_TRUE(book_.NeedsPeer(2));
  ASSERT_EQ(Hear(2, Said::kAccept, 9, 3, 10), absl::OkStatus());
  ASSERT_EQ(fx_.out.size(), 1u);
  EXPECT_EQ(fx_.out[0].payload.size(), 10u);
  EXPECT_EQ(fx_.out[0].message, 3u);
  EXPECT_THAT(Effects(), ElementsAre("data 3 to 2"));
  book_.Written(3, &fx_);
  EXPECT_THAT(Effects(), ElementsAre("ended 3"));
  EXPECT_FALSE(book_.NeedsPeer(2));
}

TEST_F(MessageBookTest, AnOfferWaitsForItsReceiver) {
  ASSERT_EQ(Hear(0, Said::kOffer, 9, 44, 10), absl::OkStatus());
  EXPECT_THAT(Effects(), IsEmpty());
  Receive(5, 0, 8, 10);  // another tag
  Receive(6, 2, 9, 10);  // another peer
  EXPECT_THAT(Effects(), IsEmpty());
  Receive(7, 0, 9, 10);
  EXPECT_THAT(Effects(), ElementsAre("accept 44 to 0"));
  const auto room = book_.RoomFor(0, {.kind = Said::kData, .id = 44, .payload = 10});
  ASSERT_TRUE(room.ok());
  EXPECT_EQ(room->data(), room_.data());
  book_.Arrived(0, 44, &fx_);
  EXPECT_THAT(Effects(), ElementsAre("ended 7"));
}

TEST_F(MessageBookTest, MessagesOfOneTagMeetInTheOrderOfTheirCalls) {
  Receive(1, 0, 9, 10);
  Receive(2, 0, 9, 20);
  ASSERT_EQ(Hear(0, Said::kOffer, 9, 31, 10), absl::OkStatus());
  ASSERT_EQ(Hear(0, Said::kOffer, 9, 32, 20), absl::OkStatus());
  EXPECT_THAT(Effects(), ElementsAre("accept 31 to 0", "accept 32 to 0"));
}

TEST_F(MessageBookTest, AnotherSizeIsRefusedAndStated) {
  Receive(1, 0, 9, 10);
  ASSERT_EQ(Hear(0, Said::kOffer, 9, 31, 11), absl::OkStatus());
  EXPECT_THAT(Effects(),
              ElementsAre("refuse 31 to 0",
                          "ended 1: recv from rank 0, tag 9: rank 0 sends 11 uint8, rank 1 expects "
                          "10 uint8"));
  Send(2, 0, 9, 11);
  (void)Effects();
  ASSERT_EQ(Hear(0, Said::kRefuse, 9, 2, 10), absl::OkStatus());
  EXPECT_THAT(Effects(), ElementsAre("ended 2: send to rank 0, tag 9: rank 1 sends 11 uint8, rank "
                                     "0 expects 10 uint8"));
}

TEST_F(MessageBookTest, FramesThatMeanNothingAreErrors) {
  Send(3, 2, 9, 10);
  EXPECT_FALSE(Hear(0, Said::kAccept, 9, 3, 10).ok());  // another peer's
  EXPECT_FALSE(Hear(2, Said::kAccept, 9, 4, 10).ok());  // nobody's
  EXPECT_FALSE(book_.RoomFor(2, {.kind = Said::kData, .id = 3, .payload = 10}).ok());
  Receive(5, 0, 8, 10);
  ASSERT_EQ(Hear(0, Said::kOffer, 8, 1, 10), absl::OkStatus());
  EXPECT_FALSE(book_.RoomFor(0, {.kind = Said::kData, .id = 1, .payload = 11}).ok());
}

TEST_F(MessageBookTest, WithACarrierMessagesOnlyMeet) {
  book_ = MessageBook(1, /*has_carrier=*/true);
  Send(3, 2, 9, 10);
  EXPECT_THAT(Effects(), ElementsAre("offer 3 to 2"));
  ASSERT_EQ(Hear(2, Said::kAccept, 9, 3, 10), absl::OkStatus());
  EXPECT_THAT(Effects(), ElementsAre("met 3"));
  EXPECT_FALSE(Hear(2, Said::kAccept, 9, 3, 10).ok());  // twice
  Receive(4, 2, 8, 10);
  ASSERT_EQ(Hear(2, Said::kOffer, 8, 7, 10), absl::OkStatus());
  EXPECT_THAT(Effects(), ElementsAre("accept 7 to 2", "met 4"));
  EXPECT_FALSE(book_.RoomFor(2, {.kind = Said::kData, .id = 7, .payload = 10}).ok());
  EXPECT_FALSE(book_.NeedsPeer(2));
}

TEST_F(MessageBookTest, AFloodOfOffersIsAnError) {
  for (uint64_t id = 1; id <= 4096; ++id)
    ASSERT_EQ(Hear(0, Said::kOffer, 9, id, 10), absl::OkStatus());
  EXPECT_FALSE(Hear(0, Said::kOffer, 9, 5000, 10).ok());
  EXPECT_EQ(Hear(2, Said::kOffer, 9, 1, 10), absl::OkStatus());
}

}  // namespace
}  // namespace dp::engine
