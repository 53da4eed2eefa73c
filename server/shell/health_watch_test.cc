#include "server/shell/health_watch.h"

#include <utility>

#include "gtest/gtest.h"

namespace dp::server {
namespace {

// A driver that answers at once, keeps the question, or takes none.
class HealthWatchTest : public testing::Test {
 protected:
  enum class Mood { kAnswers, kHangs, kFull };

  bool Ask(std::function<void()> answered) {
    MutexLock lock(mu_);
    if (mood_ == Mood::kFull) return false;
    if (mood_ == Mood::kAnswers) answered();
    if (mood_ == Mood::kHangs) kept_ = std::move(answered);
    return true;
  }
  void Become(Mood mood) {
    MutexLock lock(mu_);
    mood_ = mood;
    if (mood == Mood::kAnswers && kept_) std::exchange(kept_, nullptr)();
  }
  // What is told next, after a while.
  std::string Told() {
    const std::vector<bool> told = told_.DrainFor(absl::Minutes(1));
    return told.size() != 1 ? "nothing, or too much" : told[0] ? "serving" : "not serving";
  }

  Mutex mu_;
  Mood mood_ DP_GUARDED_BY(mu_) = Mood::kAnswers;
  std::function<void()> kept_ DP_GUARDED_BY(mu_);
  BoundedQueue<bool> told_{8};
  HealthWatch watch_{{.interval = absl::Milliseconds(1), .missed_max = 3},
                     [this](auto answered) { return Ask(std::move(answered)); },
                     [this](bool serving) { (void)told_.TryPush(serving); }};
};

TEST_F(HealthWatchTest, ADriverThatHangsIsNotServingUntilItAnswersAgain) {
  Become(Mood::kHangs);
  EXPECT_EQ(Told(), "not serving");
  Become(Mood::kAnswers);
  EXPECT_EQ(Told(), "serving");
}

TEST_F(HealthWatchTest, ADriverThatTakesNoQuestionsIsNotServing) {
  Become(Mood::kFull);
  EXPECT_EQ(Told(), "not serving");
  Become(Mood::kAnswers);
  EXPECT_EQ(Told(), "serving");
}

}  // namespace
}  // namespace dp::server
