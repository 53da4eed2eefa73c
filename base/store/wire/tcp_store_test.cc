#include "base/store/wire/tcp_store.h"

#include "base/store/async_hash_store.h"
#include "base/store/testing/store_conformance.h"
#include "base/store/wire/server.h"

namespace dp::wire {
namespace {

// A store over the wire, together with the server of ours that it talks to.
class ServedStore : public Store {
 public:
  explicit ServedStore(Dialect dialect)
      : server_(*Server::Start(backend_,
                               {.host = "127.0.0.1", .requests = {.without_handshake = dialect}})),
        store_(*TcpStore::Open(
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
  AsyncHashStore backend_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<TcpStore> store_;
};

INSTANTIATE_TEST_SUITE_P(TcpStoreA, StoreConformance, ::testing::Values([] {
                           return std::make_unique<ServedStore>(Dialect::kA);
                         }));
INSTANTIATE_TEST_SUITE_P(TcpStoreB, StoreConformance, ::testing::Values([] {
                           return std::make_unique<ServedStore>(Dialect::kB);
                         }));
INSTANTIATE_TEST_SUITE_P(TcpStoreC, StoreConformance, ::testing::Values([] {
                           return std::make_unique<ServedStore>(Dialect::kC);
                         }));
INSTANTIATE_TEST_SUITE_P(TcpStoreC, StoreLaterVerbsConformance, ::testing::Values([] {
                           return std::make_unique<ServedStore>(Dialect::kC);
                         }));

}  // namespace
}  // namespace dp::wire
