#include "worker/engine/collectives/links/peer_links.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

// Two ranks, and strangers that know where they listen.
class PeerLinksTest : public ::testing::Test {
 protected:
  PeerLinksTest() {
    const std::string name = Unguessable();
    for (int r = 0; r < 2; ++r)
      places_.push_back({LocalLinkAddress(absl::StrCat(name, "-", r)), Unguessable()});
  }

  std::unique_ptr<PeerLinks> Open(int rank) {
    auto listener = ListenForLinks(places_[rank].address, 200);
    DP_CHECK(listener.ok());
    return std::make_unique<PeerLinks>(
        JoinLinks(rank, places_, *std::move(listener)),
        PeerLinks::Options{.timeout = absl::Minutes(1),
                           .on_text = [this](int peer, LinkFrame::Kind, const std::string& text) {
                             MutexLock lock(mu_);
                             heard_ = absl::StrCat(peer, " says ", text);
                             changed_.NotifyAll();
                           }});
  }
  std::string HearText() {
    MutexLock lock(mu_);
    while (heard_.empty()) changed_.Wait(mu_);
    return std::exchange(heard_, "");
  }
  // Calls rank 0 as rank 1 with a token of its own, and says something.
  FileDescriptor CallAsStranger(const std::string& token) {
    auto caller = BeginLink(places_[0].address);
    DP_CHECK(caller.ok());
    LinkGreeting greeting{.rank = 1};
    std::memcpy(greeting.token, token.data(), sizeof greeting.token);
    const LinkFrame frame{.kind = LinkFrame::Kind::kNote};
    DP_CHECK(send(caller->get(), &greeting, sizeof greeting, 0) == sizeof greeting);
    DP_CHECK(send(caller->get(), &frame, sizeof frame, 0) == sizeof frame);
    return *std::move(caller);
  }
  // Sends a number from rank 1 to rank 0.
  static absl::Status PassNumber(PeerLinks& zero, PeerLinks& one) {
    int32_t value = 7, got = 0;
    const auto bytes = [](int32_t& number) {
      return absl::Span<uint8_t>(reinterpret_cast<uint8_t*>(&number), sizeof number);
    };
    const auto receive = zero.Pass({.sends = false, .peer = 1, .received = bytes(got)});
    const auto send = one.Pass({.sends = true, .peer = 0, .sent = bytes(value)});
    if (absl::Status sent = send->Wait(); !sent.ok()) return sent;
    if (absl::Status received = receive->Wait(); !received.ok()) return received;
    return got == 7 ? absl::OkStatus() : absl::InternalError("another value");
  }

  std::vector<LinkPlace> places_;
  Mutex mu_;
  CondVar changed_;
  std::string heard_ DP_GUARDED_BY(mu_);
};

TEST_F(PeerLinksTest, TextArrivesAtWhoHears) {
  const auto zero = Open(0), one = Open(1);
  zero->Hear();
  one->Tell(0, LinkFrame::Kind::kNote, "a note");
  EXPECT_EQ(HearText(), "1 says a note");
  zero->Tell(1, LinkFrame::Kind::kVerdict, std::string(100000, 'x'));
  one->Hear();
  EXPECT_EQ(HearText().size(), 100000 + std::string("0 says ").size());
}

TEST_F(PeerLinksTest, TextThatWasToldBeforeTheEndIsHeardAfterIt) {
  const auto zero = Open(0);
  auto one = Open(1);
  one->Tell(0, LinkFrame::Kind::kNote, "the last words");
  one.reset();
  zero->CatchUp();
  EXPECT_EQ(HearText(), "1 says the last words");
}

TEST_F(PeerLinksTest, ACallerWithoutTheTokenIsCutAndHeardByNobody) {
  const auto zero = Open(0), one = Open(1);
  const FileDescriptor stranger = CallAsStranger(Unguessable());
  zero->Hear();
  char byte = 0;
  while (recv(stranger.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN) zero->CatchUp();
  EXPECT_EQ(PassNumber(*zero, *one), absl::OkStatus());
  MutexLock lock(mu_);
  EXPECT_EQ(heard_, "");
}

TEST_F(PeerLinksTest, CallersWhoSayNothingDoNotKeepPeersOut) {
  const auto zero = Open(0), one = Open(1);
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 100; ++i) {
    auto caller = BeginLink(places_[0].address);
    ASSERT_TRUE(caller.ok()) << caller.status();
    silent.push_back(*std::move(caller));
  }
  EXPECT_EQ(PassNumber(*zero, *one), absl::OkStatus());
}

TEST_F(PeerLinksTest, WithoutAListenerAMessageSaysWhy) {
  PeerLinks none(absl::UnavailableError("bind: Too many open files"),
                 {.timeout = absl::Minutes(1)});
  EXPECT_EQ(none.Pass({.peer = 1})->Wait(), absl::UnavailableError("bind: Too many open files"));
}

TEST(LinkPlaceTest, APlaceSurvivesAsText) {
  const LinkPlace place{LocalLinkAddress("name"), Unguessable()};
  const auto decoded = DecodeLinkPlace(Encode(place));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->address, place.address);
  EXPECT_EQ(decoded->token, place.token);
  EXPECT_FALSE(DecodeLinkPlace("").ok());
  EXPECT_FALSE(DecodeLinkPlace("00 " + Unguessable()).ok());
  EXPECT_FALSE(DecodeLinkPlace(Encode(place) + "0").ok());
}

}  // namespace
}  // namespace dp::engine
