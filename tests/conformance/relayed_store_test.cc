// The Store contract for clients of PyTorch's protocol, in every dialect. Requests take the path of
// a rank's: a wire server, a relay, one gRPC connection, the coordinator.

#include <memory>

#include "client/connection.h"
#include "client/grpc_store_link.h"
#include "store/relay/store_relay.h"
#include "store/testing/store_conformance.h"
#include "store/wire/server.h"
#include "store/wire/tcp_store.h"
#include "tests/conformance/coordinator_with_job.h"

namespace dp {
namespace {

using wire::Dialect;

class RelayedStore final : public Store {
 public:
  explicit RelayedStore(Dialect dialect)
      : server_(*wire::Server::Start(
            relay_, {.host = "127.0.0.1", .requests = {.without_handshake = dialect}})),
        store_(*wire::TcpStore::Open(
            {.server = {.host = "127.0.0.1", .port = server_->port(), .dialect = dialect}})) {}

  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    return store_->Execute(operations);
  }
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override {
    return store_->Await(reads, timeout);
  }

 private:
  CoordinatorWithJob coordinator_;
  client::Connection connection_{coordinator_.address(), client::Credentials::Insecure()};
  client::GrpcStoreLink link_{
      connection_,
      {.job = coordinator_.job(), .generation = Generation(1), .incarnation = 1, .worker = "w"}};
  StoreRelay relay_{link_, {.job = coordinator_.job()}};
  std::unique_ptr<wire::Server> server_;
  std::unique_ptr<wire::TcpStore> store_;
};

OpenStore Relayed(Dialect dialect) {
  return [dialect] { return std::make_unique<RelayedStore>(dialect); };
}

INSTANTIATE_TEST_SUITE_P(RelayedA, StoreConformance, ::testing::Values(Relayed(Dialect::kA)));
INSTANTIATE_TEST_SUITE_P(RelayedB, StoreConformance, ::testing::Values(Relayed(Dialect::kB)));
INSTANTIATE_TEST_SUITE_P(RelayedB, StoreAppendConformance, ::testing::Values(Relayed(Dialect::kB)));
INSTANTIATE_TEST_SUITE_P(RelayedC, StoreConformance, ::testing::Values(Relayed(Dialect::kC)));
INSTANTIATE_TEST_SUITE_P(RelayedC, StoreAppendConformance, ::testing::Values(Relayed(Dialect::kC)));
INSTANTIATE_TEST_SUITE_P(RelayedC, StoreLaterVerbsConformance,
                         ::testing::Values(Relayed(Dialect::kC)));

}  // namespace
}  // namespace dp
