#include "store/batch_codec.h"

#include "gtest/gtest.h"

namespace dp {
namespace {

const std::string kBytes("\0k\xff", 3);

std::vector<StoreOperation> EveryChange() {
  return {StoreSet{kBytes, "v"}, StoreAppend{"k", kBytes},
          StoreAdd{"k", -7},     StoreCompareSet{"k", "e", kBytes},
          StoreDelete{""},       StoreQueuePush{"q", kBytes},
          StoreQueuePop{"q"}};
}

TEST(BatchCodecTest, EveryChangeComesBackAsItWas) {
  const std::string bytes = EncodeChanges(EveryChange());
  const auto decoded = DecodeChanges(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->size(), EveryChange().size());
  for (size_t i = 0; i < decoded->size(); ++i)
    EXPECT_EQ((*decoded)[i].index(), EveryChange()[i].index());
  EXPECT_EQ(EncodeChanges(*decoded), bytes);
}

// Store files of earlier releases hold these numbers.
TEST(BatchCodecTest, EachChangeHasItsNumber) {
  std::string numbers;
  for (const StoreOperation& change : EveryChange()) numbers += EncodeChanges({change})[0];
  EXPECT_EQ(numbers, std::string("\0\1\2\3\4\5\6", 7));
  EXPECT_EQ(EncodeChanges({StoreAdd{"k", -2}}),
            std::string("\2\1\0\0\0\0\0\0\0k\xfe\xff\xff\xff\xff\xff\xff\xff", 18));
}

TEST(BatchCodecTest, ReadsAreLeftOut) {
  EXPECT_EQ(EncodeChanges({StoreGet{"k"}, StoreCheck{{"k"}}, StoreList{""}}), "");
}

TEST(BatchCodecTest, BytesCutAnywhereAreNoBatchOrAShorterOne) {
  const std::string bytes = EncodeChanges(EveryChange());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = DecodeChanges(absl::string_view(bytes).substr(0, size));
    if (!decoded.ok()) continue;
    EXPECT_EQ(EncodeChanges(*decoded), bytes.substr(0, size));
  }
}

TEST(BatchCodecTest, AnUnknownVerbAndAHugeLengthAreDataLoss) {
  std::string bytes = EncodeChanges({StoreDelete{"k"}});
  bytes[0] = 99;
  EXPECT_EQ(DecodeChanges(bytes).status().code(), absl::StatusCode::kDataLoss);
  bytes = EncodeChanges({StoreDelete{"k"}});
  bytes[8] = '\xff';
  EXPECT_EQ(DecodeChanges(bytes).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace dp
