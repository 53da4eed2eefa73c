#include "server/driver/health_watch.h"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace dp::server {
namespace {

// A driver that answers at once, keeps the question, or rejects it.
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
  // The next report, within a minute.
  std::string Told() {
    const std::vector<Health> told = told_.DrainFor(absl::Minutes(1));
    if (told.size() != 1) return "nothing, or too much";
    if (told[0].driver && !told[0].logs) return "serving but for logs";
    return told[0].driver ? "serving" : "not serving";
  }

  Mutex mu_;
  Mood mood_ DP_GUARDED_BY(mu_) = Mood::kAnswers;
  std::function<void()> kept_ DP_GUARDED_BY(mu_);
  std::atomic<bool> logs_are_stored_ = true;
  BoundedQueue<Health> told_{8};
  HealthWatch watch_{{.interval = absl::Milliseconds(1), .missed_max = 3},
                     [this](auto answered) { return Ask(std::move(answered)); },
                     [this] { return logs_are_stored_.load(); },
                     [this](Health health) { (void)told_.TryPush(health); }};
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

TEST_F(HealthWatchTest, LogsThatFindNoRoomAreToldBesideTheDriver) {
  logs_are_stored_ = false;
  EXPECT_EQ(Told(), "serving but for logs");
  logs_are_stored_ = true;
  EXPECT_EQ(Told(), "serving");
}

}  // namespace
}  // namespace dp::server
