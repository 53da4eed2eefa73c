#include "client/grpc_store.h"

#include <memory>

#include "client/connection.h"
#include "store/testing/store_conformance.h"
#include "tests/conformance/coordinator_with_job.h"

namespace dp {
namespace {

class StoreOfCoordinator final : public Store {
 public:
  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    return store_.Execute(operations);
  }
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override {
    return store_.Await(reads, timeout);
  }

 private:
  CoordinatorWithJob coordinator_;
  client::Connection connection_{coordinator_.address(), client::Credentials::Insecure()};
  client::Pause pause_;
  client::GrpcStore store_{connection_, pause_, {coordinator_.job(), Generation(1)}};
};

INSTANTIATE_TEST_SUITE_P(GrpcStore, StoreConformance,
                         ::testing::Values([] { return std::make_unique<StoreOfCoordinator>(); }));
INSTANTIATE_TEST_SUITE_P(GrpcStore, StoreAppendConformance,
                         ::testing::Values([] { return std::make_unique<StoreOfCoordinator>(); }));
INSTANTIATE_TEST_SUITE_P(GrpcStore, StoreLaterVerbsConformance,
                         ::testing::Values([] { return std::make_unique<StoreOfCoordinator>(); }));
INSTANTIATE_TEST_SUITE_P(GrpcStore, StoreBatchConformance,
                         ::testing::Values([] { return std::make_unique<StoreOfCoordinator>(); }));

TEST(GrpcStoreTest, AnotherGenerationIsRefusedAtOnce) {
  CoordinatorWithJob coordinator;
  client::Connection connection(coordinator.address(), client::Credentials::Insecure());
  client::Pause pause;
  client::GrpcStore store(connection, pause, {coordinator.job(), Generation(2)});
  EXPECT_EQ(store.Set("k", "v").code(), absl::StatusCode::kFailedPrecondition);
  client::GrpcStore nobody(connection, pause, {JobId(99), Generation(1)});
  EXPECT_EQ(nobody.Get("k", absl::Minutes(1)).status().code(), absl::StatusCode::kNotFound);
}

TEST(GrpcStoreTest, ABatchThatIsLargerThanAMessageSaysSoAndHasDoneNothing) {
  CoordinatorWithJob coordinator;
  client::Connection connection(coordinator.address(), client::Credentials::Insecure());
  client::Pause pause;
  client::GrpcStore store(connection, pause, {coordinator.job(), Generation(1)});
  const std::string value(7 << 20, 'v');
  const absl::Status status = store.MultiSet({{"a", value}, {"b", value}, {"c", value}});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("send it in several"));
  EXPECT_FALSE(store.Check({"a"}).value());
  EXPECT_TRUE(store.MultiSet({{"a", value}, {"b", value}}).ok());
}

TEST(GrpcStoreTest, TwoClientsShareTheirKeys) {
  CoordinatorWithJob coordinator;
  client::Connection connection(coordinator.address(), client::Credentials::Insecure()),
      other(coordinator.address(), client::Credentials::Insecure());
  client::Pause pause;
  client::GrpcStore one(connection, pause, {coordinator.job(), Generation(1)});
  client::GrpcStore two(other, pause, {coordinator.job(), Generation(1)});
  EXPECT_EQ(one.Add("n", 1).value(), 1);
  EXPECT_EQ(two.Add("n", 1).value(), 2);
}

}  // namespace
}  // namespace dp
