#include "worker/library/agreement/unanimity.h"

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/failure.h"

namespace dp::library {
namespace {

using ::testing::ElementsAre;

// As PyTorch's server, which wakes nobody when compare_set sets a key.
class StoreWithoutThatWake : public HashStore {
 public:
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override {
    for (const StoreOperation& read : reads)
      if (const auto* get = std::get_if<StoreGet>(&read); get != nullptr && get->key == "answer") {
        EXPECT_TRUE(Execute({read}).value()[0].found) << "nobody wakes this wait";
      }
    return HashStore::Await(reads, timeout);
  }
};

class UnanimityTest : public ::testing::Test {
 protected:
  Unanimity Rank(int rank) { return {keys_, rank, {0, 1, 2}}; }
  absl::StatusOr<std::string> Consent(int rank, absl::Duration timeout = absl::Minutes(1)) {
    return Rank(rank).Consent("connect", timeout);
  }
  // The answer to a rank that consents and waits, once it waits.
  std::jthread Waiting(int rank, absl::StatusOr<std::string>* answer) {
    std::jthread thread([=, this] { *answer = Consent(rank); });
    EXPECT_TRUE(keys_.Get(absl::StrCat("came/", rank), absl::Minutes(1)).ok());
    return thread;
  }

  StoreWithoutThatWake keys_;
};

TEST_F(UnanimityTest, AllGoOnOnceTheLastConsents) {
  absl::StatusOr<std::string> zero, one;
  std::vector<std::jthread> threads;
  threads.push_back(Waiting(0, &zero));
  threads.push_back(Waiting(1, &one));
  EXPECT_FALSE(*keys_.Check(std::vector<std::string>{"answer"}));
  EXPECT_EQ(*Consent(2), "");
  threads.clear();
  EXPECT_EQ(*zero, "");
  EXPECT_EQ(*one, "");
}

TEST_F(UnanimityTest, TheFirstObjectionReachesEverybody) {
  absl::StatusOr<std::string> zero;
  std::jthread waiting = Waiting(0, &zero);
  ASSERT_TRUE(Rank(1).Object("no memory").ok());
  ASSERT_TRUE(Rank(1).Object("another reason").ok());
  waiting.join();
  EXPECT_EQ(*zero, "no memory");
  EXPECT_EQ(*Consent(2), "no memory");
}

TEST_F(UnanimityTest, AnObjectionCanBeSeenWithoutConsent) {
  EXPECT_EQ(*Rank(0).Objection(), "");
  ASSERT_TRUE(Rank(1).Object("no memory").ok());
  EXPECT_EQ(*Rank(0).Objection(), "no memory");
}

TEST_F(UnanimityTest, ATimeoutNamesTheRanksThatHaveNotCome) {
  const absl::Status late = Consent(1, absl::Milliseconds(50)).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(late.message(), "connect: ranks 0, 2 did not arrive within 50ms");
  EXPECT_THAT(engine::MissingRanks(late), ElementsAre(0, 2));
}

TEST_F(UnanimityTest, ATimeoutNamesTheLimitOfWhichTheWaitHadTheRest) {
  const absl::Status late =
      Rank(1).Consent("connect", absl::Milliseconds(-26), absl::Seconds(6)).status();
  EXPECT_EQ(late.message(), "connect: ranks 0, 2 did not arrive within 6s");
}

}  // namespace
}  // namespace dp::library
