#include "store/wire/tcp_store.h"

#include "store/async_hash_store.h"
#include "store/testing/store_conformance.h"
#include "store/wire/server.h"

namespace dp::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::Values;

constexpr absl::Duration kReplyWithin = absl::Seconds(30);

// A store over the wire, together with the server of ours behind it.
class ServedStore : public Store {
 public:
  ServedStore(Dialect dialect, const RequestOptions& requests)
      : server_(*Server::Start(backend_, {.host = "127.0.0.1", .requests = requests})),
        store_(*TcpStore::Open({.server = At(dialect)})) {}

  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    return store_->Execute(operations);
  }
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override {
    return store_->Await(reads, timeout);
  }

  TcpEndpoint At(Dialect dialect) const {
    return {.host = "127.0.0.1", .port = server_->port(), .dialect = dialect};
  }

 private:
  AsyncHashStore backend_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<TcpStore> store_;
};

OpenStore Served(Dialect dialect, const RequestOptions& requests = {}) {
  return [=] { return std::make_unique<ServedStore>(dialect, requests); };
}

const RequestOptions kClientsAreB{.without_handshake = Dialect::kB};
const RequestOptions kOnlyC{.admit_without_handshake = false};

INSTANTIATE_TEST_SUITE_P(TcpStoreA, StoreConformance, Values(Served(Dialect::kA)));
INSTANTIATE_TEST_SUITE_P(TcpStoreB, StoreConformance, Values(Served(Dialect::kB, kClientsAreB)));
INSTANTIATE_TEST_SUITE_P(TcpStoreB, StoreAppendConformance,
                         Values(Served(Dialect::kB, kClientsAreB)));

// Their handshake names the dialect, whatever clients without one are taken for.
auto ServedC() {
  return Values(Served(Dialect::kC), Served(Dialect::kC, kClientsAreB),
                Served(Dialect::kC, kOnlyC));
}
INSTANTIATE_TEST_SUITE_P(TcpStoreC, StoreConformance, ServedC());
INSTANTIATE_TEST_SUITE_P(TcpStoreC, StoreAppendConformance, ServedC());
INSTANTIATE_TEST_SUITE_P(TcpStoreC, StoreLaterVerbsConformance, ServedC());

// The verbs for many keys, which TcpStore does not use.
std::vector<std::string> SetAndGetMany(const ServedStore& served, Dialect dialect) {
  const auto connection = TcpConnection::Open(served.At(dialect), kReplyWithin);
  if (!connection.ok()) return {connection.status().ToString()};
  (*connection)->Tell({Verb::kMultiSet, {{"a", "1", "b", "2"}}});
  (*connection)->Tell({Verb::kAppend, {{"a", "0"}}});
  const auto values = (*connection)->Call({Verb::kMultiGet, {{"b", "a"}}}, kReplyWithin);
  if (!values.ok()) return {values.status().ToString()};
  return values->strings;
}

TEST(TcpStoreTest, AppendMultiSetAndMultiGetAreInDialectsBAndC) {
  const ServedStore b(Dialect::kB, kClientsAreB), c(Dialect::kC, {});
  EXPECT_THAT(SetAndGetMany(b, Dialect::kB), ElementsAre("2", "10"));
  EXPECT_THAT(SetAndGetMany(c, Dialect::kC), ElementsAre("2", "10"));
}

TEST(TcpStoreTest, AClientTakenForDialectAIsOneOfBOnceItSetsManyKeys) {
  const ServedStore unknown(Dialect::kA, {});
  EXPECT_THAT(SetAndGetMany(unknown, Dialect::kB), ElementsAre("2", "10"));
}

TEST(TcpStoreTest, WhatADialectHasNoVerbForIsUnimplemented) {
  ServedStore a(Dialect::kA, {});
  EXPECT_EQ(a.Append("k", "v").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(a.QueuePush("q", "v").status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(a.QueuePop("q", absl::InfiniteDuration()).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(a.ListKeys().status().code(), absl::StatusCode::kUnimplemented);
  ServedStore b(Dialect::kB, kClientsAreB);
  EXPECT_EQ(b.QueuePush("q", "v").status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(b.ListKeys().status().code(), absl::StatusCode::kUnimplemented);
}

TEST(TcpStoreTest, AWatchIsUnimplementedAtOnceWhateverIsThere) {
  for (const Dialect dialect : {Dialect::kA, Dialect::kB, Dialect::kC}) {
    ServedStore store(dialect, {.without_handshake = dialect});
    EXPECT_EQ(store.Watch("k", 0, absl::InfiniteDuration()).status().code(),
              absl::StatusCode::kUnimplemented);
    ASSERT_TRUE(store.Set("k", "v").ok());
    EXPECT_EQ(store.Watch("k", 0, absl::InfiniteDuration()).status().code(),
              absl::StatusCode::kUnimplemented);
  }
}

}  // namespace
}  // namespace dp::wire
