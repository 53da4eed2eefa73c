#include "server/core/digest.h"

#include <gtest/gtest.h>

namespace dp::core {
namespace {

// The published FNV-1a value for eight zero bytes: the meaning of the number never changes.
TEST(DigestTest, IsFnv1aOverLittleEndianBytes) {
  EXPECT_EQ(Digest().value(), 0xcbf29ce484222325u);
  EXPECT_EQ(Digest().Add(uint64_t{0}).value(), 0xa8c7f832281a39c5u);
}

TEST(DigestTest, StringsCarryTheirLength) {
  EXPECT_NE(Digest().Add("ab").Add("c").value(), Digest().Add("a").Add("bc").value());
}

TEST(DigestTest, TheOrderCounts) {
  EXPECT_NE(Digest().Add(uint64_t{1}).Add(uint64_t{2}).value(),
            Digest().Add(uint64_t{2}).Add(uint64_t{1}).value());
}

}  // namespace
}  // namespace dp::core
