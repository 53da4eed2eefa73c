#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <utility>

#include "store/async_hash_store.h"
#include "store/wire/protocol.h"
#include "store/wire/server.h"
#include "store/wire/socket.h"

namespace dp::wire {
namespace {

constexpr absl::Duration kTurnPatience = absl::Seconds(30);

// Records in which turn it is called, 0 outside of any. Used by the server's thread while the
// server runs.
class TurnsStore final : public AsyncHashStore {
 public:
  void Execute(std::vector<StoreOperation> operations, Done done) override {
    asked_in_.push_back(in_turn_ ? turn_ : 0);
    AsyncHashStore::Execute(std::move(operations), std::move(done));
  }
  void BeginTurn() override {
    in_turn_ = true;
    ++turn_;
  }
  void EndTurn() override { in_turn_ = false; }
  const std::vector<int>& asked_in() const { return asked_in_; }

 private:
  bool in_turn_ = false;
  int turn_ = 0;
  std::vector<int> asked_in_;
};

TEST(ServerTurnTest, RequestsOfOneSegmentReachTheStoreInOneTurn) {
  TurnsStore store;
  auto server = Server::Start(store, {.host = "127.0.0.1"});
  ASSERT_TRUE(server.ok()) << server.status();
  auto client = Connect("127.0.0.1", (*server)->port(), kTurnPatience);
  ASSERT_TRUE(client.ok()) << client.status();
  std::string both;
  AppendRequest(Dialect::kA, {Verb::kSet, {{"k", "v"}}}, &both);
  AppendRequest(Dialect::kA, {Verb::kGet, {{"k"}}}, &both);
  ASSERT_EQ(send(client->get(), both.data(), both.size(), 0), static_cast<ssize_t>(both.size()));
  ASSERT_TRUE(AwaitSocket(client->get(), POLLIN, kTurnPatience).ok());
  server->reset();
  ASSERT_EQ(store.asked_in().size(), 2);
  EXPECT_GT(store.asked_in()[0], 0);
  EXPECT_EQ(store.asked_in()[1], store.asked_in()[0]);
}

}  // namespace
}  // namespace dp::wire
