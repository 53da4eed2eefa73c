#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/random.h"
#include "base/testing/settable_clock.h"
#include "gtest/gtest.h"
#include "store/hash_store.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/nccl/nccl_pipeline.h"
#include "worker/engine/collectives/testing/fake_nccl.h"

// Worlds whose ranks are killed, stopped or stuck at random moments, on one thread and a clock that
// advances only between rounds. Whatever happens, every operation of a living rank ends with an
// error by its deadline. The error names the ranks to blame and nobody else.

namespace dp::engine {
namespace {

constexpr absl::Duration kWaitAtMost = absl::Seconds(30);
constexpr absl::Duration kRound = absl::Milliseconds(20);
// If a peer gives up just before this rank's own deadline, this rank learns of it a beat later.
// The slack is half of what the ladder of time limits leaves for that (docs/failures.md).
constexpr absl::Duration kSlack = absl::Milliseconds(1060);
constexpr int kRoundsMax = 10'000;
// Some twenty steps of training: the blow falls on ranks that have been at work for a while.
constexpr int kCalmRoundsMax = 500;
constexpr int kSeeds = 500;

enum class Fault {
  kNone,
  kKilled,   // the process is gone, and the network reports it to whoever waits for it
  kStopped,  // no thread of the process runs, and nobody learns of it
  kStuck,    // the training hangs; the group's threads run
};

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  int Below(int limit) {
    return static_cast<int>(NextRandom(state_) % static_cast<uint64_t>(limit));
  }
  absl::Duration Upto(absl::Duration most) { return most * UnitInterval(NextRandom(state_)); }

 private:
  uint64_t state_;
};

// A rank that loops: it computes, pushes one to three all-reduces, and waits for them.
class SimulatedRank {
 public:
  SimulatedRank(FakeNccl& nccl, Store& store, const std::string& id, int rank, int size,
                const Clock& clock)
      : nccl_(nccl),
        clock_(clock),
        times_(SuspicionTimesFor(kWaitAtMost, absl::Seconds(1))),
        operations_(clock),
        roll_call_(store, rank, size,
                   {.prefix = "nccl", .interval = times_.interval, .patience = times_.patience},
                   clock),
        stream_(*nccl.MakeStream()),
        communicator_(*nccl.Join({&id, 1}, rank, size, {})),
        pipeline_(std::make_unique<NcclPipeline>(
            NcclPipeline::Parts{.api = nccl,
                                .communicator = communicator_,
                                .stream = stream_,
                                .operations = operations_,
                                .roll_call = roll_call_,
                                .times = times_,
                                .clock = clock,
                                .abort = [this](void* c) { nccl_.Abort(c); }})),
        busy_until_(clock.Now()) {}
  ~SimulatedRank() {
    pipeline_.reset();
    nccl_.FreeStream(stream_);
  }

  void Strike(Fault fault) {
    fault_ = fault;
    if (fault == Fault::kKilled) nccl_.Die(communicator_);
  }

  void Round(Dice& dice) {
    if (fault_ == Fault::kKilled || fault_ == Fault::kStopped) return;
    if (fault_ != Fault::kStuck) Train(dice);
    pipeline_->Step();
    roll_call_.Step();
    NoteEnds();
  }

  Fault fault() const { return fault_; }
  // The first error of an operation, if there is one.
  const std::optional<absl::Status>& error() const { return error_; }
  absl::Duration late_by() const { return late_by_; }
  bool waits() const { return !open_.empty(); }

 private:
  void Train(Dice& dice) {
    if (!open_.empty() || error_.has_value() || clock_.Now() < busy_until_) return;
    if (!computed_) {
      computed_ = true;
      busy_until_ = clock_.Now() + dice.Upto(dice.Below(10) == 0 ? absl::Seconds(5) : kRound * 5);
      return;
    }
    computed_ = false;
    for (int buckets = 1 + dice.Below(3); buckets > 0; --buckets) Push();
  }

  void Push() {
    auto operation = std::make_shared<NcclOperation>();
    operation->number = ++pushed_;
    operation->name = absl::StrCat("all_reduce ", operation->number);
    operation->called = clock_.Now();
    operation->means.computed = RecordNcclEvent(nccl_, nullptr);
    operation->means.enqueue = [this](NcclApi::Communicator communicator) {
      return nccl_.Give(communicator, SumOf(absl::MakeSpan(data_)), stream_);
    };
    operations_.Push(operation);
    open_.push_back(operation);
  }

  void NoteEnds() {
    while (!open_.empty() && operations_.ended(*open_.front())) {
      const NcclOperation& operation = *open_.front();
      const absl::Status status = operations_.Wait(operation);
      if (!status.ok() && !error_.has_value()) {
        error_ = status;
        late_by_ = clock_.Now() - std::max(operation.called, last_end_) - kWaitAtMost;
      }
      last_end_ = clock_.Now();
      open_.erase(open_.begin());
    }
  }

  FakeNccl& nccl_;
  const Clock& clock_;
  const SuspicionTimes times_;
  NcclOperations operations_;
  RollCall roll_call_;
  const NcclApi::Stream stream_;
  const NcclApi::Communicator communicator_;
  std::unique_ptr<NcclPipeline> pipeline_;
  std::array<float, 2> data_{};
  Fault fault_ = Fault::kNone;
  std::vector<NcclOperations::Handle> open_;
  int64_t pushed_ = 0;
  bool computed_ = false;
  absl::Time busy_until_;
  absl::Time last_end_ = absl::InfinitePast();
  std::optional<absl::Status> error_;
  absl::Duration late_by_;
};

// The ranks that a message names.
std::vector<int> Named(const absl::Status& status) {
  std::vector<int> named;
  std::string text(status.message());
  for (const char* begin : {": ranks ", ": rank "}) {
    const size_t at = text.find(begin);
    if (at == std::string::npos) continue;
    text = text.substr(at + std::string(begin).size());
    for (absl::string_view word : absl::StrSplit(text, ", ")) {
      int rank = 0;
      if (!absl::SimpleAtoi(word.substr(0, word.find(' ')), &rank)) break;
      named.push_back(rank);
    }
    break;
  }
  return named;
}

class SimulatedWorld {
 public:
  explicit SimulatedWorld(uint64_t seed) : dice_(seed) {
    if (dice_.Below(2) == 0) nccl_.HideErrorsFromIdleRanks();
    const int size = 2 + dice_.Below(5);
    for (int r = 0; r < size; ++r)
      ranks_.push_back(std::make_unique<SimulatedRank>(nccl_, store_, "id", r, size, clock_));
  }

  // Runs until every living rank has its error.
  void Run() {
    const int victim = dice_.Below(size());
    const int strikes_at = dice_.Below(kCalmRoundsMax);
    const Fault fault = std::array{Fault::kKilled, Fault::kStopped, Fault::kStuck}[dice_.Below(3)];
    for (int round = 0; round < kRoundsMax && !over(); ++round) {
      if (round == strikes_at) ranks_[victim]->Strike(fault);
      RunRound();
    }
    victim_ = victim;
  }

  void Check() const {
    for (int r = 0; r < size(); ++r) {
      if (r == victim_) continue;
      ASSERT_TRUE(ranks_[r]->error().has_value()) << "rank " << r << " hangs";
      const absl::Status& error = *ranks_[r]->error();
      ASSERT_EQ(Named(error), std::vector<int>{victim_}) << "rank " << r << ": " << error;
      ASSERT_LE(ranks_[r]->late_by(), kSlack) << "rank " << r << ": " << error;
    }
  }

 private:
  int size() const { return static_cast<int>(ranks_.size()); }

  bool over() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
      return rank->error().has_value() || rank->fault() != Fault::kNone;
    });
  }

  // Runs the ranks in a new random order each time.
  void RunRound() {
    std::vector<int> order(ranks_.size());
    for (int r = 0; r < size(); ++r) order[r] = r;
    for (int r = size() - 1; r > 0; --r) std::swap(order[r], order[dice_.Below(r + 1)]);
    for (int r : order) ranks_[r]->Round(dice_);
    clock_.Advance(kRound);
  }

  Dice dice_;
  SettableClock clock_;
  FakeNccl nccl_{FakeNccl::Anywhere};
  HashStore store_{{}, clock_};
  std::vector<std::unique_ptr<SimulatedRank>> ranks_;
  int victim_ = -1;
};

TEST(NcclSimulationTest, WhoeverLivesIsToldInTimeWhoIsToBlame) {
  for (uint64_t seed = 1; seed <= kSeeds && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SimulatedWorld world(seed);
    world.Run();
    world.Check();
  }
}

}  // namespace
}  // namespace dp::engine
