#include "store/operation_bytes.h"

#include <string>

#include "gtest/gtest.h"

namespace dp {
namespace {

// The bytes of an operation's strings, without the framing of its kind.
size_t Strings(const StoreOperation& operation, const StoreOperation& empty) {
  return BytesOf(operation) - BytesOf(empty);
}

TEST(OperationBytesTest, EveryStringOfAnOperationCounts) {
  EXPECT_EQ(Strings(StoreSet{"key", "value"}, StoreSet{}), 8u);
  EXPECT_EQ(Strings(StoreAppend{"key", "value"}, StoreAppend{}), 8u);
  EXPECT_EQ(Strings(StoreQueuePush{"key", "value"}, StoreQueuePush{}), 8u);
  EXPECT_EQ(Strings(StoreCompareSet{"key", "old", "newer"}, StoreCompareSet{}), 11u);
  EXPECT_EQ(Strings(StoreGet{"key"}, StoreGet{}), 3u);
  EXPECT_EQ(Strings(StoreList{"prefix"}, StoreList{}), 6u);
}

TEST(OperationBytesTest, ManyEmptyKeysAreNotFree) {
  EXPECT_EQ(Strings(StoreCheck{{"a", "bcd"}}, StoreCheck{{"", ""}}), 4u);
  EXPECT_GE(Strings(StoreCheck{{"", "", ""}}, StoreCheck{}), 3u);
}

}  // namespace
}  // namespace dp
