#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/settable_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/async_hash_store.h"
#include "store/wire/server.h"
#include "store/wire/testing/spoken_client.h"

// Servers whose clients send more than fits into memory.

namespace dp::wire {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

// Two of these values fit into the memory, three do not.
constexpr size_t kMost = size_t{2} << 20, kValue = 780'000;
// A request with one such value holds at least this: the first 4 KiB of a connection do not count.
constexpr size_t kHeld = 750'000;

std::string SetOf(const std::string& key, size_t bytes) {
  std::string set;
  AppendRequest(Dialect::kC, {Verb::kSet, {{key, std::string(bytes, 'v')}}}, &set);
  return set;
}

// The start of a set of this many bytes, without its value.
std::string Announcement(size_t bytes) {
  const std::string set = SetOf("k", bytes);
  return set.substr(0, set.size() - bytes);
}

// Only tests advance the clock, so nobody is slow before.
class ServerMemoryTest : public ::testing::Test {
 protected:
  void Start(absl::Duration slow_after) {
    auto server = Server::Start(
        store_,
        {.host = "127.0.0.1", .memory = &memory_, .slow_after = slow_after, .clock = clock_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void SetUp() override { Start(absl::Seconds(10)); }

  std::unique_ptr<SpokenClient> Connected() {
    return std::make_unique<SpokenClient>(Dialect::kC, server_->port());
  }
  std::unique_ptr<SpokenClient> ThatSays(const std::string& bytes) {
    auto client = Connected();
    client->Say(bytes);
    return client;
  }
  void AwaitTaken(size_t bytes) const {
    while (memory_.taken() < bytes) std::this_thread::yield();
  }
  void AwaitShortage() const {
    while (!memory_.short_of_memory()) std::this_thread::yield();
  }

  AsyncHashStore store_;
  MessageMemory memory_{kMost, "send less"};
  SettableClock clock_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerMemoryTest, TheSlowestRequestIsDroppedWhereOthersWaitForItsMemory) {
  Start(absl::ZeroDuration());
  auto slow = ThatSays(Announcement(kValue));
  slow->Ask(Verb::kPing, {}, 7);  // read as part of the value
  AwaitTaken(kHeld);
  auto next = ThatSays(Announcement(kValue));
  AwaitTaken(2 * kHeld);
  auto other = ThatSays(SetOf("k", kValue));
  EXPECT_EQ(other->Get("k").size(), kValue);
  EXPECT_TRUE(slow->Closed());
}

TEST_F(ServerMemoryTest, ManyRequestsThatLackTheirLastByteStayWithinTheMemoryAndAreDropped) {
  std::vector<std::unique_ptr<SpokenClient>> slow;
  for (int i = 0; i < 30; ++i) slow.push_back(ThatSays(Announcement(kValue) + "begun"));
  AwaitShortage();
  EXPECT_EQ(Connected()->Get("none"), "");  // by now the server has read from all of them
  auto other = ThatSays(Announcement(kValue));
  EXPECT_EQ(Connected()->Get("none"), "");
  while (memory_.short_of_memory()) {
    EXPECT_LE(memory_.taken(), kMost);
    clock_.Advance(absl::Seconds(10));
    EXPECT_EQ(Connected()->Get("none"), "");
  }
  other->Say(std::string(kValue, 'v'));
  EXPECT_EQ(other->Get("k").size(), kValue);
  EXPECT_TRUE(slow.front()->Closed());
}

TEST_F(ServerMemoryTest, TheMemoryOfAClientThatGoesIsForThoseWhoWait) {
  auto slow = ThatSays(Announcement(kValue) + "begun");
  auto next = ThatSays(Announcement(kValue) + "begun");
  AwaitTaken(2 * kHeld);
  auto other = ThatSays(Announcement(kValue));
  AwaitShortage();
  slow.reset();
  other->Say(std::string(kValue, 'v'));
  EXPECT_EQ(other->Get("k"), std::string(kValue, 'v'));
}

TEST_F(ServerMemoryTest, ASlowRequestWaitsForEverWhereNobodyWantsItsMemory) {
  Start(absl::ZeroDuration());
  auto slow = ThatSays(Announcement(kValue));
  auto other = ThatSays(SetOf("k", kValue));
  EXPECT_EQ(other->Get("k").size(), kValue);
  slow->Say(std::string(kValue, 's'));
  EXPECT_EQ(slow->Get("k"), std::string(kValue, 's'));
}

TEST_F(ServerMemoryTest, WaitsOfManyClientsDoNotKeepASetFromEndingThem) {
  std::string wait;
  std::vector<std::string> keys(999, std::string(40, 'k'));
  keys.push_back("last");
  AppendRequest(Dialect::kC, {Verb::kWait, {keys}}, &wait);
  std::vector<std::unique_ptr<SpokenClient>> waiters;
  for (int i = 0; i < 60; ++i) waiters.push_back(ThatSays(wait));
  auto setter = ThatSays(SetOf(keys[0], 100'000) + SetOf("last", 100'000));
  for (auto& waiter : waiters) EXPECT_EQ(waiter->Reply(Verb::kWait).number, kStopWaiting);
}

// Sets two keys. The first kBegun bytes lack the end of the first value; kWaiting more announce the
// second.
std::string TwoValues() {
  std::string request;
  const std::string value(400'000, 'v');
  AppendRequest(Dialect::kC, {Verb::kMultiSet, {{"one", value, "two", value}}}, &request);
  return request;
}
constexpr size_t kBegun = 400'000, kWaiting = 100;

TEST_F(ServerMemoryTest, ARequestThatWaitsForMemoryIsNotSlowAndTheShortageIsLoggedOnce) {
  CaptureStderr();
  auto client = ThatSays(TwoValues().substr(0, kBegun));
  AwaitTaken(300'000);
  clock_.Advance(absl::Seconds(1));
  auto slow = ThatSays(Announcement(kValue)), slow_too = ThatSays(Announcement(kValue));
  AwaitTaken(2 * kHeld + 300'000);
  client->Say(TwoValues().substr(kBegun, kWaiting));
  AwaitShortage();
  EXPECT_EQ(Connected()->Get("none"), "");  // by now the server has seen the shortage
  clock_.Advance(absl::Seconds(10));
  client->Say(TwoValues().substr(kBegun + kWaiting));
  EXPECT_EQ(client->Get("two").size(), 400'000u);
  EXPECT_TRUE(slow->Closed());
  const std::string log = GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("event=tcpstore_short_of_memory"));
  EXPECT_THAT(log, HasSubstr("limit=2097152 waiting=1 remedy=\"send less\""));
  EXPECT_EQ(log.find("tcpstore_short_of_memory"), log.rfind("tcpstore_short_of_memory"));
}

TEST_F(ServerMemoryTest, WaitingForMemoryDoesNotMakeASlowClientStartAnew) {
  auto slow = ThatSays(TwoValues().substr(0, kBegun));
  AwaitTaken(300'000);
  auto one = ThatSays(Announcement(kValue)), two = ThatSays(Announcement(kValue));
  AwaitTaken(2 * kHeld + 300'000);
  clock_.Advance(absl::Seconds(6));
  slow->Say(TwoValues().substr(kBegun, kWaiting));
  AwaitShortage();
  for (auto* client : {one.get(), two.get()}) {
    client->Say(std::string(kValue, 'v'));
    EXPECT_EQ(client->Get("k").size(), kValue);
  }
  EXPECT_EQ(Connected()->Get("none"), "");  // by now the slow one has its memory
  auto three = ThatSays(Announcement(kValue));
  AwaitTaken(kHeld + 700'000);
  auto four = ThatSays(Announcement(kValue));
  AwaitShortage();
  clock_.Advance(absl::Seconds(5));
  EXPECT_TRUE(slow->Closed());
  four->Say(std::string(kValue, 'f'));
  EXPECT_EQ(four->Get("k"), std::string(kValue, 'f'));
}

}  // namespace
}  // namespace dp::wire
