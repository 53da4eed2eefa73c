#include "worker/agent/stores/store_endpoints.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "store/wire/server.h"
#include "store/wire/socket.h"
#include "store/wire/tcp_store.h"

namespace dp::worker {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

// A coordinator that answers every batch with the end of the generation. With `taking` it accepts
// all; with `senseless` its answers do not fit the requests. Thread-safe, except for these flags.
class FakeConnection final : public client::AsyncStoreConnection {
 public:
  bool taking = false;
  bool senseless = false;

  std::shared_ptr<StoreLink::Call> StartExecute(v1::ExecuteRequest request, absl::Duration,
                                                Done<v1::ExecuteResponse> done) override {
    v1::ExecuteResponse response;
    for (int i = 0; i < request.operations_size(); ++i) response.add_results()->set_found(true);
    if (senseless) {
      std::move(done)(v1::ExecuteResponse());
    } else if (taking) {
      std::move(done)(std::move(response));
    } else {
      std::move(done)(absl::FailedPreconditionError("generation 1 is over"));
    }
    return std::make_shared<Call>();
  }
  std::shared_ptr<StoreLink::Call> StartAwait(v1::AwaitRequest, absl::Duration,
                                              Done<v1::AwaitResponse> done) override {
    std::move(done)(absl::AbortedError("generation 1 is over"));
    return std::make_shared<Call>();
  }
  std::shared_ptr<ParkStream> OpenPark() override { return std::make_shared<Stream>(); }

 private:
  struct Call : StoreLink::Call {
    void Cancel() override {}
  };
  struct Stream final : ParkStream {
    std::shared_ptr<StoreLink::Call> Park(v1::AwaitRequest, Done<v1::AwaitResponse> done) override {
      std::move(done)(absl::AbortedError("generation 1 is over"));
      return std::make_shared<Call>();
    }
    bool ended() const override { return false; }
    void Close() override {}
  };
};

// A port that was free on loopback a moment ago.
int FreePort() { return *wire::PortOf(wire::Listen("127.0.0.1", 0)->get()); }

class StoreEndpointsTest : public testing::Test {
 protected:
  // A job with one rank on each of two hosts; the first host is 127.0.0.1.
  v1::AssignedRank Rank(int rank, const std::string& store) const {
    v1::AssignedRank assigned;
    assigned.set_job(7);
    assigned.set_generation(1);
    assigned.set_rank(rank);
    assigned.set_world_size(2);
    assigned.set_store_port(port_);
    assigned.mutable_spec()->mutable_command()->set_store(store);
    for (const char* address : {"127.0.0.1", "127.0.0.99"}) {
      v1::HostRanks* host = assigned.add_hosts();
      host->set_address(address);
      host->add_slots(0);
    }
    return assigned;
  }
  std::string Open(const v1::AssignedRank& rank) {
    const auto at = endpoints_.Open(rank, {"w", "127.0.0.1", "10.0.0.7:7070"}, geteuid());
    if (!at.ok()) return std::string(at.status().message());
    EXPECT_EQ(at->port, port_);
    EXPECT_TRUE(at->served);
    return at->host;
  }
  bool Served(const std::string& host) const {
    return wire::Connect(host, static_cast<uint16_t>(port_), kPatience).ok();
  }
  // Whether the server on loopback accepts a key of so many bytes.
  bool Takes(size_t key_bytes) const {
    const auto store = wire::TcpStore::Open(
        {.server = {.host = "127.0.0.1", .port = static_cast<uint16_t>(port_)}, .prefix = ""});
    return store.ok() && (*store)->Set(std::string(key_bytes, 'k'), "v").ok();
  }
  void RanksGone() { endpoints_.RanksGone(JobId(7), Generation(1)); }
  void AwaitOver() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!over_) ASSERT_TRUE(changed_.WaitFor(mu_, kPatience));
  }

  // Whether the server on loopback accepts a key of a process of user `user`.
  bool TakesFrom(uid_t user) const {
    const pid_t child = fork();
    if (child == 0) _exit(setuid(user) == 0 && Takes(1) ? 0 : 1);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  const int port_ = FreePort();
  Mutex mu_;
  CondVar changed_;
  bool over_ DP_GUARDED_BY(mu_) = false;
  FakeConnection connection_;
  StoreEndpoints endpoints_{connection_, 1, [this](JobId, Generation) {
                              MutexLock lock(mu_);
                              over_ = true;
                              changed_.NotifyAll();
                            }};
};

TEST_F(StoreEndpointsTest, ARelayIsOnLoopbackOneForAllRanksAndEndsWithThem) {
  EXPECT_EQ(Open(Rank(1, "relay")), "127.0.0.1");
  EXPECT_EQ(Open(Rank(1, "relay")), "127.0.0.1");
  EXPECT_TRUE(Served("127.0.0.1"));
  RanksGone();
  EXPECT_FALSE(Served("127.0.0.1"));
}

TEST_F(StoreEndpointsTest, ARelayWhosePortIsTakenIsAtTheNextAddressOfLoopback) {
  const auto other = wire::Listen("127.0.0.1", static_cast<uint16_t>(port_));
  EXPECT_EQ(Open(Rank(0, "relay")), "127.0.0.2");
}

TEST_F(StoreEndpointsTest, ItTakesKeysAsLongAsTheCoordinatorSaysTheStoreDoes) {
  connection_.taking = true;
  v1::AssignedRank rank = Rank(0, "relay");
  rank.mutable_store_limits()->set_key_bytes(20 << 10);
  rank.mutable_store_limits()->set_value_bytes(8 << 20);
  Open(rank);
  EXPECT_TRUE(Takes(20 << 10));
  EXPECT_FALSE(Takes((20 << 10) + 1));
}

TEST_F(StoreEndpointsTest, ItServesTheUserOfTheRanksAndRootAndNobodyElse) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to act as another user";
  connection_.taking = true;
  const RankProcesses processes;
  StoreEndpoints checked(
      connection_, 1, [](JobId, Generation) {}, &processes);
  ASSERT_TRUE(checked.Open(Rank(0, "rank0"), {"w", "127.0.0.1", "10.0.0.7:7070"}, 12345).ok());
  EXPECT_TRUE(TakesFrom(12345));
  EXPECT_TRUE(TakesFrom(0));
  EXPECT_FALSE(TakesFrom(12346));
}

TEST_F(StoreEndpointsTest, ACoordinatorThatTellsNoLimitsHasTheDefaults) {
  connection_.taking = true;
  Open(Rank(0, "relay"));
  EXPECT_TRUE(Takes(8 << 10));
  EXPECT_FALSE(Takes((8 << 10) + 1));
}

TEST_F(StoreEndpointsTest, OnlyTheHostOfRank0ServesForAllAndOnlyAtItsAddress) {
  EXPECT_EQ(Open(Rank(1, "rank0")), "127.0.0.1");
  EXPECT_FALSE(Served("127.0.0.1"));
  EXPECT_EQ(Open(Rank(0, "rank0")), "127.0.0.1");
  EXPECT_TRUE(Served("127.0.0.1"));
  EXPECT_FALSE(Served("127.0.0.2"));
}

TEST_F(StoreEndpointsTest, ItServesOtherHostsUntilTheGenerationIsOver) {
  Open(Rank(0, "rank0"));
  RanksGone();
  AwaitOver();
  EXPECT_TRUE(Served("127.0.0.1"));
  endpoints_.GenerationOver(JobId(7), Generation(1));
  RanksGone();
  EXPECT_FALSE(Served("127.0.0.1"));
}

TEST_F(StoreEndpointsTest, OneThatHasFailedServesOtherHostsNoLongerThanItsOwn) {
  connection_.senseless = true;
  Open(Rank(0, "rank0"));
  EXPECT_FALSE(Takes(1));
  RanksGone();
  AwaitOver();
}

TEST_F(StoreEndpointsTest, APortOfRank0ThatIsTakenSaysWhoseAndWhatToDo) {
  const auto other = wire::Listen("127.0.0.1", static_cast<uint16_t>(port_));
  const std::string error = Open(Rank(0, "rank0"));
  EXPECT_TRUE(absl::StartsWith(error, absl::StrCat("store of job 7 on 127.0.0.1 port ", port_)))
      << error;
  EXPECT_TRUE(absl::StrContains(error, "--store-ports")) << error;
}

TEST_F(StoreEndpointsTest, WhatTheCoordinatorServesIsWhereItSaysOrWhereItIs) {
  v1::AssignedRank rank = Rank(0, "direct");
  EXPECT_EQ(Open(rank), "10.0.0.7");
  rank.set_store_host("store.example");
  EXPECT_EQ(Open(rank), "store.example");
  EXPECT_FALSE(Served("127.0.0.1"));
}

}  // namespace
}  // namespace dp::worker
