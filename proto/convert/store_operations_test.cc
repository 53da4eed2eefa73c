#include "proto/convert/store_operations.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

const std::string kBytes("\0k\xff", 3);

const std::vector<StoreOperation>& EveryOperation() {
  static const std::vector<StoreOperation> operations{
      StoreSet{kBytes, "v"},     StoreAppend{kBytes, "v"},
      StoreAdd{kBytes, -7},      StoreCompareSet{kBytes, "e", "d"},
      StoreDelete{kBytes},       StoreQueuePush{kBytes, "v"},
      StoreQueuePop{kBytes},     StoreGet{kBytes},
      StoreCheck{{kBytes, "b"}}, StoreList{kBytes, false},
      StoreQueueLength{kBytes},  StoreReached{kBytes, 3},
      StoreNewer{kBytes, 9}};
  return operations;
}

TEST(StoreOperationsTest, EveryVerbIsHere) {
  EXPECT_EQ(EveryOperation().size(), std::variant_size_v<StoreOperation>);
  for (size_t i = 0; i < EveryOperation().size(); ++i) EXPECT_EQ(EveryOperation()[i].index(), i);
}

TEST(StoreOperationsTest, EveryVerbComesBackAsItWas) {
  StoreOperationProtos protos, again;
  OperationsToProto(EveryOperation(), &protos);
  const auto operations = OperationsFromProto(protos);
  ASSERT_TRUE(operations.ok()) << operations.status();
  OperationsToProto(*operations, &again);
  for (int i = 0; i < protos.size(); ++i) {
    EXPECT_EQ((*operations)[i].index(), EveryOperation()[i].index());
    EXPECT_EQ(protos[i].SerializeAsString(), again[i].SerializeAsString());
    EXPECT_THAT(protos[i].SerializeAsString(), testing::HasSubstr(kBytes));
  }
}

TEST(StoreOperationsTest, AnOperationWithoutAVerbIsInvalid) {
  StoreOperationProtos protos;
  protos.Add();
  EXPECT_EQ(OperationsFromProto(protos).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(StoreOperationsTest, ResultsComeBackAsTheyWere) {
  const std::vector<StoreResult> results{
      {}, {.found = true, .value = kBytes, .number = -3, .keys = {"a", kBytes}, .version = 5}};
  StoreResultProtos protos;
  ResultsToProto(results, &protos);
  EXPECT_EQ(ResultsFromProto(std::move(protos)), results);
}

}  // namespace
}  // namespace dp
