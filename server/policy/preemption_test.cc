#include "server/policy/preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace dp::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kDraws = 3'000;
const absl::Time kBegan = absl::FromUnixSeconds(1'000);

// Workers whose slots are all taken, unless a test says otherwise.
class PreemptionTest : public testing::Test {
 protected:
  void AddWorker(int slots, int gpus = 0) {
    const uint64_t id = workers_.size() + 1;
    workers_.push_back(
        {.id = WorkerId(id), .name = absl::StrCat("w", id), .count = slots, .gpus = gpus});
  }
  RunningJob& AddJob(int priority, SlotSupply::Slots slots, bool preemptible = true) {
    running_.push_back({.id = JobId(running_.size() + 1),
                        .slots = std::move(slots),
                        .priority = priority,
                        .since = kBegan,
                        .preemptible = preemptible});
    return running_.back();
  }
  std::vector<JobId> Victims(const SlotNeed& head, int priority = 10) const {
    return ChooseVictims(SlotSupply(workers_), running_, head, priority);
  }
  static PlaceJob::Slot At(int worker, int slot) {
    return {WorkerId(static_cast<uint64_t>(worker)), slot};
  }

  std::vector<WorkerSlots> workers_;
  std::vector<RunningJob> running_;
};

TEST_F(PreemptionTest, TheLowestPriorityGoesFirst) {
  AddWorker(2);
  AddJob(1, {At(1, 0)}), AddJob(-1, {At(1, 1)});
  EXPECT_THAT(Victims({.ranks = 1}), ElementsAre(JobId(2)));
}

TEST_F(PreemptionTest, OfThoseOfOnePriorityTheYoungestGoes) {
  AddWorker(3);
  AddJob(0, {At(1, 0)}), AddJob(0, {At(1, 1)}).since = kBegan + absl::Minutes(1),
                                          AddJob(0, {At(1, 2)});
  EXPECT_THAT(Victims({.ranks = 1}), ElementsAre(JobId(2)));
  EXPECT_THAT(Victims({.ranks = 2}), ElementsAre(JobId(2), JobId(3)));
}

TEST_F(PreemptionTest, WhomAnotherMakesUnnecessaryStays) {
  AddWorker(3);
  AddJob(0, {At(1, 0)}), AddJob(1, {At(1, 1), At(1, 2)});
  EXPECT_THAT(Victims({.ranks = 2}), ElementsAre(JobId(2)));
}

TEST_F(PreemptionTest, NobodyGoesInVain) {
  AddWorker(2);
  AddJob(0, {At(1, 0)}), AddJob(0, {At(1, 1)}, /*preemptible=*/false);
  EXPECT_THAT(Victims({.ranks = 2}), IsEmpty());
  EXPECT_THAT(Victims({.ranks = 1}), ElementsAre(JobId(1)));
}

TEST_F(PreemptionTest, OnlyLowerPrioritiesGo) {
  AddWorker(1);
  AddJob(10, {At(1, 0)});
  EXPECT_THAT(Victims({.ranks = 1}, 10), IsEmpty());
  EXPECT_THAT(Victims({.ranks = 1}, 11), ElementsAre(JobId(1)));
}

TEST_F(PreemptionTest, WhoLeavesAlreadyIsEnough) {
  AddWorker(2);
  AddJob(0, {At(1, 0)}).leaving = true, AddJob(0, {At(1, 1)});
  EXPECT_THAT(Victims({.ranks = 1}), IsEmpty());
  EXPECT_THAT(Victims({.ranks = 2}), ElementsAre(JobId(2)));
}

TEST_F(PreemptionTest, WhatALeavingJobHasFreedCountsToo) {
  AddWorker(2);
  RunningJob& leaving = AddJob(0, {At(1, 0)});
  leaving.leaving = leaving.returns = true;
  leaving.kept = {At(1, 1)};
  EXPECT_THAT(Victims({.ranks = 2}), IsEmpty());
}

// The job stops only for a moment, and has its turn before the head.
TEST_F(PreemptionTest, TheSlotsOfOneThatComesBackFirstAreNotThere) {
  AddWorker(2);
  RunningJob& back = AddJob(20, {At(1, 0)});
  back.leaving = back.returns = true;
  AddJob(0, {At(1, 1)});
  AddWorker(1), AddJob(0, {At(2, 0)});
  EXPECT_THAT(Victims({.ranks = 3}), IsEmpty());
  EXPECT_THAT(Victims({.ranks = 1}), IsEmpty());  // it may not need them any more
  EXPECT_THAT(Victims({.ranks = 2}), ElementsAre(JobId(3), JobId(2)));
}

TEST_F(PreemptionTest, AHeadThatNeedsWholeWorkersGetsWholeWorkers) {
  AddWorker(2), AddWorker(2);
  AddJob(0, {At(1, 0)}), AddJob(0, {At(1, 1), At(2, 0)}, /*preemptible=*/false);
  AddJob(5, {At(2, 1)});
  EXPECT_THAT(Victims({.ranks = 2, .nodes = 1}), IsEmpty());
  running_[1].preemptible = true;
  EXPECT_THAT(Victims({.ranks = 2, .nodes = 1}), ElementsAre(JobId(2), JobId(1)));
}

TEST_F(PreemptionTest, ASlotThatNobodyCanUseIsNotWon) {
  AddWorker(1), AddWorker(1);
  workers_[0].unhealthy = {0};
  AddJob(0, {At(1, 0)}), AddJob(5, {At(2, 0)});
  EXPECT_THAT(Victims({.ranks = 1}), ElementsAre(JobId(2)));
  EXPECT_THAT(Victims({.ranks = 2}), IsEmpty());
}

TEST_F(PreemptionTest, SlotsOfNoUseToTheHeadArePassedOver) {
  AddWorker(2, /*gpus=*/1);
  AddJob(0, {At(1, 1)}), AddJob(5, {At(1, 0)});
  EXPECT_THAT(Victims({.ranks = 1, .kind = SlotKind::kGpu}), ElementsAre(JobId(2)));
}

// Compares with all possible choices.
class RandomPreemptionTest : public PreemptionTest {
 protected:
  void Draw(uint64_t seed) {
    random_ = seed;
    for (int i = 1 + Below(3); i > 0; --i) {
      AddWorker(1 + Below(3));
      for (int slot = 0; slot < workers_.back().count; ++slot) Hold(slot);
    }
    head_ = {.ranks = 1 + Below(5)};
    if (head_.ranks % 2 == 0 && Below(2) == 0) head_.nodes = 2;
  }
  bool FitsWithout(const std::vector<JobId>& gone) const {
    SlotSupply supply(workers_);
    for (const RunningJob& job : running_) {
      const bool goes = std::find(gone.begin(), gone.end(), job.id) != gone.end();
      if (goes || job.leaving) supply.Give(job.slots);
    }
    return SlotSupply::Fits(head_, supply.CountFor(head_));
  }
  // The lowest priority up to which jobs must leave to make room; none if there is no way.
  std::optional<int> CeilingByBruteForce() const {
    std::optional<int> best;
    for (unsigned subset = 0; subset < 1u << running_.size(); ++subset) {
      std::vector<JobId> gone;
      int ceiling = -100;
      bool may = true;
      for (size_t i = 0; i < running_.size(); ++i) {
        if ((subset >> i & 1) == 0) continue;
        may &= running_[i].preemptible && running_[i].priority < kPriority;
        ceiling = std::max(ceiling, running_[i].priority);
        gone.push_back(running_[i].id);
      }
      if (may && FitsWithout(gone) && (!best || ceiling < *best)) best = ceiling;
    }
    return best;
  }

  static constexpr int kPriority = 2;
  SlotNeed head_;

 private:
  int Below(int bound) { return static_cast<int>(NextRandom(random_) % bound); }
  // Gives the slot to a new or an existing job, or leaves it free.
  void Hold(int slot) {
    WorkerSlots& worker = workers_.back();
    if (Below(6) == 0) return worker.free.push_back(slot);
    if (running_.empty() || (running_.size() < 7 && Below(2) == 0)) {
      RunningJob& job = AddJob(Below(4), {}, Below(4) > 0);
      job.since = kBegan + absl::Seconds(Below(3));
      job.leaving = Below(6) == 0;
    }
    running_[Below(static_cast<int>(running_.size()))].slots.push_back({worker.id, slot});
  }

  uint64_t random_ = 0;
};

TEST_F(RandomPreemptionTest, TheVictimsAreEnoughAndNoneIsInVain) {
  int preempted = 0;
  for (uint64_t seed = 1; seed <= kDraws; ++seed) {
    workers_.clear(), running_.clear();
    Draw(seed);
    SCOPED_TRACE(seed);
    const std::vector<JobId> victims = Victims(head_, kPriority);
    const std::optional<int> ceiling = CeilingByBruteForce();
    if (victims.empty()) {
      ASSERT_TRUE(!ceiling.has_value() || FitsWithout({}));
      continue;
    }
    ++preempted;
    ASSERT_TRUE(FitsWithout(victims));
    int highest = -100;
    for (const JobId victim : victims) {
      const RunningJob& job = running_.at(victim.value() - 1);
      ASSERT_TRUE(job.preemptible && !job.leaving);
      highest = std::max(highest, job.priority);
      std::vector<JobId> others = victims;
      std::erase(others, victim);
      ASSERT_FALSE(FitsWithout(others));
    }
    ASSERT_EQ(highest, *ceiling);
  }
  EXPECT_GT(preempted, static_cast<int>(kDraws) / 20);
}

}  // namespace
}  // namespace dp::core
