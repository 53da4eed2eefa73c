// Compares backfill with brute force: jobs that go ahead of the head must not delay it.

#include "server/policy/reservation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "server/policy/placement.h"

namespace dp::core {
namespace {

constexpr uint64_t kSeeds = 3'000;
const absl::Time kNow = absl::FromUnixSeconds(1'000);

// A slot as (worker, number).
using Held = std::set<std::pair<uint64_t, int>>;

// A random cluster with a queue.
class Cluster {
 public:
  explicit Cluster(uint64_t seed) : random_(seed) {
    for (int i = 1 + Below(4); i > 0; --i) AddWorker();
    for (int i = Below(4); i > 0; --i) AddRunning();
    for (int i = 2 + Below(5); i > 0; --i) AddWaiting();
  }

  PlacementInput Input() const {
    static const StorePorts none;
    return {.workers = workers_,
            .queue = queue_,
            .running = running_,
            .ports = PortSupply(none, {}, kNow),
            .now = kNow};
  }
  const std::vector<WorkerSlots>& workers() const { return workers_; }
  const std::vector<RunningJob>& running() const { return running_; }
  const WaitingJob& job(JobId id) const { return queue_.at(id.value() - 100); }

 private:
  int Below(int bound) { return static_cast<int>(NextRandom(random_) % bound); }
  absl::Duration Bound() {
    return Below(2) == 0 ? absl::InfiniteDuration() : absl::Minutes(1 + Below(5));
  }

  void AddWorker() {
    const uint64_t id = workers_.size() + 1;
    WorkerSlots worker{.id = WorkerId(id), .name = absl::StrCat("w", id), .count = 1 + Below(3)};
    worker.gpus = Below(worker.count + 1);
    worker.trains_on_gpus = Below(2) == 0;
    if (Below(2) == 0) worker.labels.emplace("zone", "a");
    worker.rack = absl::StrCat("r", Below(2));
    for (int slot = 0; slot < worker.count; ++slot) worker.free.push_back(slot);
    workers_.push_back(std::move(worker));
  }

  void AddRunning() {
    RunningJob job{.id = JobId(running_.size() + 1), .until = kNow + Bound()};
    for (WorkerSlots& worker : workers_) {
      if (worker.free.empty() || Below(2) == 0) continue;
      job.slots.push_back({worker.id, worker.free.back()});
      worker.free.pop_back();
    }
    if (!job.slots.empty()) running_.push_back(std::move(job));
  }

  void AddWaiting() {
    WaitingJob job{.id = JobId(100 + queue_.size()), .need = {.ranks = 1 + Below(4)}};
    if (job.need.ranks % 2 == 0 && Below(2) == 0) job.need.nodes = 2;
    if (job.need.nodes > 0 && Below(2) == 0) job.need.nodes_max = 3;
    job.need.kind = static_cast<SlotKind>(Below(4));
    if (Below(3) == 0) job.need.constraints = {*ParseConstraint("zone=a")};
    job.time_left = Bound();
    queue_.push_back(std::move(job));
  }

  uint64_t random_;
  std::vector<WorkerSlots> workers_;
  std::vector<RunningJob> running_;
  std::vector<WaitingJob> queue_;
};

// Brute force, slot by slot.
bool Fits(const SlotNeed& need, const Cluster& cluster, const Held& held) {
  int workers = 0, slots = 0;
  for (const WorkerSlots& worker : cluster.workers()) {
    bool good = true;
    for (const LabelConstraint& constraint : need.constraints) {
      good = good && Satisfies(worker.labels, constraint);
    }
    int here = 0;
    for (int slot = 0; good && slot < worker.count; ++slot) {
      const bool gpu = slot < worker.gpus;
      const bool kind = need.kind == SlotKind::kAny || (need.kind == SlotKind::kCpu && !gpu) ||
                        (need.kind == SlotKind::kGpu && gpu) ||
                        (need.kind == SlotKind::kTrainingGpu && gpu && worker.trains_on_gpus);
      here += kind && held.count({worker.id.value(), slot}) == 0;
    }
    slots += here;
    workers += need.nodes > 0 && here >= need.ranks / need.nodes;
  }
  return need.nodes > 0 ? workers >= need.nodes : slots >= need.ranks;
}

// All slots that are held once the jobs of which `ended` is true have ended.
template <typename Ended>
Held HeldUnless(const std::vector<RunningJob>& jobs, Ended ended) {
  Held held;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (ended(i)) continue;
    for (const PlaceJob::Slot& slot : jobs[i].slots) held.insert({slot.worker.value(), slot.slot});
  }
  return held;
}

// The latest time at which the job fits, if every job runs for as long as it may.
absl::Time StartOf(const SlotNeed& need, const Cluster& cluster,
                   const std::vector<RunningJob>& jobs) {
  std::set<absl::Time> times;
  for (const RunningJob& job : jobs) times.insert(job.until);
  for (const absl::Time time : times) {
    const Held held = HeldUnless(jobs, [&](size_t i) { return jobs[i].until <= time; });
    if (time < absl::InfiniteFuture() && Fits(need, cluster, held)) return time;
  }
  return absl::InfiniteFuture();
}

struct Round {
  std::vector<RunningJob> before;  // the jobs that held slots when the head had to wait
  std::vector<RunningJob> after;   // the same, and the jobs that went ahead of it
  const WaitingJob* head = nullptr;
};

// Follows the queue: jobs placed before the head have their slots by right.
Round RoundOf(const Cluster& cluster, const PlacementInput& input, const Placement& placement) {
  Round round{cluster.running(), {}, nullptr};
  std::map<JobId, SlotSupply::Slots> placed;
  for (const PlaceJob& place : placement.place) placed[place.job] = place.slots;
  round.after = round.before;
  for (const WaitingJob& job : input.queue) {
    if (const auto it = placed.find(job.id); it != placed.end()) {
      const RunningJob started{.id = job.id, .slots = it->second, .until = kNow + job.time_left};
      if (round.head == nullptr) round.before.push_back(started);
      round.after.push_back(started);
    } else if (round.head == nullptr && Fits(job.need, cluster, {})) {
      round.head = &cluster.job(job.id);
    }
  }
  return round;
}

// Copies the free slots of `supply`.
void Note(const SlotSupply& supply, PlacementInput& input) {
  for (WorkerSlots& worker : input.workers) worker.free = supply.Find(worker.id)->free;
}

TEST(ReservationTest, NoSlotIsGivenTwiceAndEachRankGetsWhatItsJobNeeds) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Cluster cluster(seed);
    Held held = HeldUnless(cluster.running(), [](size_t) { return false; });
    for (const PlaceJob& place : PlanPlacement(cluster.Input()).place) {
      const SlotNeed& need = cluster.job(place.job).need;
      ASSERT_TRUE(Fits(need, cluster, held)) << "seed " << seed;
      const SlotSupply supply(cluster.workers());
      for (const PlaceJob::Slot& slot : place.slots) {
        ASSERT_TRUE(held.insert({slot.worker.value(), slot.slot}).second) << "seed " << seed;
        ASSERT_TRUE(supply.CanUse(need, slot)) << "seed " << seed;
      }
    }
  }
}

TEST(ReservationTest, WhatGoesAheadDoesNotMoveTheLatestStartOfTheHead) {
  int heads = 0, ahead = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Cluster cluster(seed);
    const PlacementInput input = cluster.Input();
    const Round round = RoundOf(cluster, input, PlanPlacement(input));
    if (round.head == nullptr) continue;
    ++heads;
    ahead += static_cast<int>(round.after.size() - round.before.size());
    EXPECT_LE(StartOf(round.head->need, cluster, round.after),
              StartOf(round.head->need, cluster, round.before))
        << "seed " << seed;
  }
  // Otherwise the test tried nothing.
  EXPECT_GT(heads, 500);
  EXPECT_GT(ahead, 100);
}

TEST(ReservationTest, AJobThatEndsInTheMomentThatTheHeadStartsDoesNotDelayIt) {
  const PlaceJob::Slot busy{WorkerId(1), 0}, free{WorkerId(1), 1};
  const WorkerSlots worker{.id = WorkerId(1), .name = "w", .count = 2, .free = {1}};
  const absl::Time end = kNow + absl::Minutes(1);
  const std::vector<RunningJob> running = {{.id = JobId(1), .slots = {busy}, .until = end}};
  const Reservation reservation(SlotSupply({worker}), running, {.ranks = 2}, kNow);
  EXPECT_EQ(reservation.start(), end);
  EXPECT_TRUE(reservation.Spares({free}, end));
  EXPECT_FALSE(reservation.Spares({free}, end + absl::Nanoseconds(1)));
}

// Jobs that may run for ever stand in the way. Any subset of the jobs may also end at once.
TEST(ReservationTest, WhereNobodyKnowsWhenTheHeadStartsNothingGoesAheadThatItCouldUse) {
  int checked = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Cluster cluster(seed);
    const PlacementInput input = cluster.Input();
    const Round round = RoundOf(cluster, input, PlanPlacement(input));
    if (round.head == nullptr) continue;
    if (StartOf(round.head->need, cluster, round.before) < absl::InfiniteFuture()) continue;
    for (size_t ended = 0; ended < size_t{1} << round.before.size(); ++ended) {
      const auto over = [&](size_t i) { return i < round.before.size() && (ended >> i & 1) != 0; };
      const bool without = Fits(round.head->need, cluster, HeldUnless(round.before, over));
      if (!without) continue;
      ++checked;
      // In `after` the jobs before the head have another order, so jobs are compared by id.
      std::set<JobId> gone;
      for (size_t i = 0; i < round.before.size(); ++i) {
        if (over(i)) gone.insert(round.before[i].id);
      }
      const auto over_after = [&](size_t i) { return gone.count(round.after[i].id) > 0; };
      EXPECT_TRUE(Fits(round.head->need, cluster, HeldUnless(round.after, over_after)))
          << "seed " << seed;
    }
  }
  EXPECT_GT(checked, 100);
}

// A cluster over many minutes, in which jobs end at their time, or earlier by chance.
class QueueOverTime {
 public:
  explicit QueueOverTime(uint64_t seed) : random_(seed * 7919), input_(Cluster(seed).Input()) {}

  // Lets a minute pass and places jobs. Returns false when no job waits any more.
  bool Next() {
    if (input_.queue.empty()) return false;
    input_.now = kNow + absl::Minutes(minute_++);
    SlotSupply supply(input_.workers);
    EndSome(supply);
    Note(supply, input_);
    for (const PlaceJob& place : PlanPlacement(input_).place) Run(place, supply);
    Note(supply, input_);
    return FindHead(supply);
  }

  // Whether the head should have started by now, according to its reservation.
  bool was_late() const { return was_late_; }
  // How many jobs were placed that had a reservation.
  int kept() const { return kept_; }

 private:
  void EndSome(SlotSupply& supply) {
    std::erase_if(input_.running, [&](const RunningJob& job) {
      const bool over = job.until <= input_.now || NextRandom(random_) % 8 == 0;
      if (over) supply.Give(job.slots);
      return over;
    });
  }
  void Run(const PlaceJob& place, SlotSupply& supply) {
    const auto job = std::find_if(input_.queue.begin(), input_.queue.end(),
                                  [&](const auto& each) { return each.id == place.job; });
    supply.Take(place.slots);
    input_.running.push_back(
        {.id = job->id, .slots = place.slots, .until = input_.now + job->time_left});
    kept_ += job->id == head_;
    input_.queue.erase(job);
  }
  bool FindHead(const SlotSupply& supply) {
    const auto first = std::find_if(input_.queue.begin(), input_.queue.end(), [&](const auto& job) {
      return SlotSupply::FitsIdle(job.need, supply.CountFor(job.need));
    });
    if (first == input_.queue.end()) return false;
    was_late_ = first->id == head_ && input_.now >= promised_;
    const absl::Time start = Reservation(supply, input_.running, first->need, input_.now).start();
    promised_ = first->id == head_ ? std::min(promised_, start) : start;
    head_ = first->id;
    return true;
  }

  uint64_t random_;
  PlacementInput input_;
  int minute_ = 0;
  JobId head_;
  absl::Time promised_ = absl::InfiniteFuture();
  bool was_late_ = false;
  int kept_ = 0;
};

// The head starts within its reservation.
TEST(ReservationTest, APromiseIsKeptWhateverHappensInBetween) {
  int kept = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    QueueOverTime minutes(seed);
    for (int i = 0; i < 12 && minutes.Next(); ++i) {
      ASSERT_FALSE(minutes.was_late()) << "seed " << seed;
    }
    kept += minutes.kept();
  }
  EXPECT_GT(kept, 200);
}

}  // namespace
}  // namespace dp::core
