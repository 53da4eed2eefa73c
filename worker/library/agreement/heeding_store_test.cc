#include "worker/library/agreement/heeding_store.h"

#include <string>
#include <thread>
#include <vector>

#include "base/testing/settable_clock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"

namespace dp::library {
namespace {

// Waits pass at once: each advances the clock by its timeout.
class PassingStore : public HashStore {
 public:
  explicit PassingStore(SettableClock& clock) : clock_(clock) {}

  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override {
    waits += 1;
    auto results = HashStore::Await(reads, absl::ZeroDuration());
    if (absl::IsDeadlineExceeded(results.status())) clock_.Advance(timeout);
    return results;
  }

  int waits = 0;

 private:
  SettableClock& clock_;
};

class HeedingStoreTest : public ::testing::Test {
 protected:
  absl::Status Wait(absl::Duration timeout) {
    return heeding_.Wait(std::vector<std::string>{"absent"}, timeout);
  }

  SettableClock clock_;
  PassingStore below_{clock_};
  absl::Status why_not_;
  int questions_ = 0;
  HeedingStore heeding_{below_,
                        [this] {
                          ++questions_;
                          return why_not_;
                        },
                        absl::Seconds(1), clock_};
};

TEST_F(HeedingStoreTest, AWaitThatIsServedAsksNothing) {
  ASSERT_TRUE(heeding_.Set("key", "7").ok());
  EXPECT_EQ(*heeding_.Get("key", absl::Minutes(1)), "7");
  EXPECT_EQ(below_.waits, 1);
  EXPECT_EQ(questions_, 0);
}

TEST_F(HeedingStoreTest, ALongWaitAsksAtTheInterval) {
  const absl::Time begin = clock_.Now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(Wait(absl::Milliseconds(3500))));
  EXPECT_EQ(questions_, 3);
  EXPECT_EQ(clock_.Now() - begin, absl::Milliseconds(3500));
}

TEST_F(HeedingStoreTest, ShortWaitsAskAtTheIntervalToo) {
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(absl::IsDeadlineExceeded(Wait(absl::Seconds(0.25))));
  EXPECT_EQ(questions_, 3);
}

TEST_F(HeedingStoreTest, TheReasonEndsTheWait) {
  why_not_ = absl::InvalidArgumentError("backends differ");
  const absl::Time begin = clock_.Now();
  EXPECT_EQ(Wait(absl::Minutes(1)), why_not_);
  EXPECT_EQ(clock_.Now() - begin, absl::Seconds(1));
}

TEST_F(HeedingStoreTest, OnceStoppedItAsksNothing) {
  why_not_ = absl::InvalidArgumentError("backends differ");
  heeding_.Stop();
  EXPECT_TRUE(absl::IsDeadlineExceeded(Wait(absl::Seconds(5))));
  EXPECT_EQ(questions_, 0);
  EXPECT_EQ(below_.waits, 1);
}

}  // namespace
}  // namespace dp::library
