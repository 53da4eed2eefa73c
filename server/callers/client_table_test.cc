#include "server/callers/client_table.h"

#include <initializer_list>
#include <map>
#include <string>

#include "base/limits.h"
#include "gmock/gmock.h"
#include "server/policy/liveness.h"
#include "server/policy/testing/coordinator_fixture.h"

namespace dp::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Two workers, and a job of three ranks: two on the first, one on the second.
class ClientTableTest : public core::CoordinatorFixture {
 protected:
  struct Client {
    int rank = 0;
    std::string end;
  };
  void Tell(WorkerId worker, std::initializer_list<Client> clients, uint64_t generation = 1) {
    v1::StoreClients told;
    for (const Client& client : clients) {
      v1::StoreClient* added = told.add_clients();
      added->set_job(job_.value());
      added->set_generation(generation);
      added->set_rank(client.rank);
      added->set_end(client.end);
    }
    table_.Report(worker, life(worker), told);
  }
  std::map<std::string, int> Ranks() { return table_.Of(*coordinator_.job(job_), view()); }
  View view() { return {coordinator_, liveness_, waiting_, log_versions_, waiters_, now_}; }

  const WorkerId first_ = Register("node1", 2);
  const WorkerId second_ = Register("node2", 1);
  const JobId job_ = SubmitCommandAndPlace(3);
  const core::Liveness liveness_{absl::Seconds(5)};
  const Waiters waiters_{Waiters::Capacity{}};
  const std::map<JobId, core::Waiting> waiting_;
  const std::map<JobId, uint64_t> log_versions_;
  ClientTable table_;
};

TEST_F(ClientTableTest, WhatWorkersTellOfTheirRanksIsKnownUntilTheyTellOtherwise) {
  Tell(first_, {{0, "10.0.0.1:1"}, {1, "10.0.0.1:2"}});
  Tell(second_, {{2, "10.0.0.2:1"}});
  EXPECT_THAT(Ranks(),
              ElementsAre(Pair("10.0.0.1:1", 0), Pair("10.0.0.1:2", 1), Pair("10.0.0.2:1", 2)));
  Tell(first_, {{1, "10.0.0.1:3"}});
  EXPECT_THAT(Ranks(), ElementsAre(Pair("10.0.0.1:3", 1), Pair("10.0.0.2:1", 2)));
  Tell(second_, {});
  EXPECT_THAT(Ranks(), ElementsAre(Pair("10.0.0.1:3", 1)));
}

TEST_F(ClientTableTest, NoWorkerSpeaksForTheRanksOfAnotherOrOfAnotherGeneration) {
  Tell(second_, {{0, "10.0.0.2:1"}, {-1, "10.0.0.2:2"}, {7, "10.0.0.2:3"}});
  EXPECT_THAT(Ranks(), IsEmpty());
  Tell(second_, {{2, "10.0.0.2:1"}}, /*generation=*/2);
  EXPECT_THAT(Ranks(), IsEmpty());
}

TEST_F(ClientTableTest, AReportThatComesAfterItsLifeIsOverIsDropped) {
  const Incarnation before = life(second_);
  Lose(second_);
  v1::StoreClients late;
  v1::StoreClient* client = late.add_clients();
  client->set_job(job_.value());
  client->set_generation(1);
  client->set_rank(2);
  client->set_end("10.0.0.2:1");
  table_.Report(second_, before, late);
  EXPECT_THAT(Ranks(), IsEmpty());
}

TEST_F(ClientTableTest, ALifeOfAWorkerThatIsOverHasNoConnections) {
  Tell(second_, {{2, "10.0.0.2:1"}});
  EXPECT_THAT(Ranks(), ElementsAre(Pair("10.0.0.2:1", 2)));
  Lose(second_);
  EXPECT_THAT(Ranks(), IsEmpty());
}

TEST_F(ClientTableTest, WhatTwoRanksAreSaidToHaveIsNeithers) {
  Tell(first_, {{0, "127.0.0.1:1"}, {1, "127.0.0.1:2"}});
  Tell(second_, {{2, "127.0.0.1:1"}});
  EXPECT_THAT(Ranks(), ElementsAre(Pair("127.0.0.1:2", 1)));
}

TEST_F(ClientTableTest, WhatIsKeptIsBounded) {
  v1::StoreClients told;
  for (size_t i = 0; i < kStoreClientsMax + 10; ++i) {
    v1::StoreClient* client = told.add_clients();
    client->set_job(job_.value());
    client->set_generation(1);
    client->set_end(absl::StrCat("10.0.0.1:", i));
  }
  told.mutable_clients(0)->set_end(std::string(kSocketEndBytesMax + 1, 'x'));
  table_.Report(first_, life(first_), told);
  EXPECT_EQ(Ranks().size(), kStoreClientsMax - 1);
}

}  // namespace
}  // namespace dp::server
