#include "store/hash_store.h"

#include "store/prefix_store.h"
#include "store/testing/store_conformance.h"

namespace dp {
namespace {

// A prefix store and the store below it, which holds a key of another namespace.
class PrefixedHashStore : public Store {
 public:
  PrefixedHashStore() { (void)inner_.Set("k", "outside"); /* a fresh store takes it */ }

  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    return prefixed_.Execute(operations);
  }
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override {
    return prefixed_.Await(reads, timeout);
  }

 private:
  HashStore inner_;
  PrefixStore prefixed_{"inside/", inner_};
};

INSTANTIATE_TEST_SUITE_P(HashStore, StoreConformance,
                         ::testing::Values([] { return std::make_unique<HashStore>(); }));
INSTANTIATE_TEST_SUITE_P(HashStore, StoreAppendConformance,
                         ::testing::Values([] { return std::make_unique<HashStore>(); }));
INSTANTIATE_TEST_SUITE_P(HashStore, StoreLaterVerbsConformance,
                         ::testing::Values([] { return std::make_unique<HashStore>(); }));
INSTANTIATE_TEST_SUITE_P(HashStore, StoreBatchConformance,
                         ::testing::Values([] { return std::make_unique<HashStore>(); }));
INSTANTIATE_TEST_SUITE_P(PrefixStore, StoreConformance,
                         ::testing::Values([] { return std::make_unique<PrefixedHashStore>(); }));
INSTANTIATE_TEST_SUITE_P(PrefixStore, StoreAppendConformance,
                         ::testing::Values([] { return std::make_unique<PrefixedHashStore>(); }));
INSTANTIATE_TEST_SUITE_P(PrefixStore, StoreLaterVerbsConformance,
                         ::testing::Values([] { return std::make_unique<PrefixedHashStore>(); }));
INSTANTIATE_TEST_SUITE_P(PrefixStore, StoreBatchConformance,
                         ::testing::Values([] { return std::make_unique<PrefixedHashStore>(); }));

TEST(PrefixStoreTest, KeysOfOtherNamespacesAreNeitherSeenNorTouched) {
  HashStore inner;
  PrefixStore a("a/", inner), b("b/", inner);
  ASSERT_TRUE(a.Set("k", "1").ok());
  EXPECT_FALSE(*b.Delete("k"));
  EXPECT_EQ(*inner.Get("a/k", absl::ZeroDuration()), "1");
}

}  // namespace
}  // namespace dp
