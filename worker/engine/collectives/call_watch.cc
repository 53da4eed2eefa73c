#include "worker/engine/collectives/call_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "worker/engine/collectives/failure.h"

namespace dp::engine {
namespace {

// How long an operation lasts before its rank suspects that calls differ.
constexpr absl::Duration kPatience = absl::Seconds(1);

// A farewell opens connections, so it goes to so many of the next ranks.
constexpr int kFarewellsMax = 128;
// How long a farewell may take to leave.
constexpr absl::Duration kFarewellLeaves = absl::Milliseconds(500);

}  // namespace

CallWatch::CallWatch(int rank, int size, const GroupLinks& links, std::function<void()> end)
    : rank_(rank), size_(size), links_(links), end_(std::move(end)), ledger_(size) {}

PeerLinks::Options CallWatch::hooks() {
  return {.on_text = [this](int peer, LinkFrame::Kind kind,
                            const std::string& text) { Heard(peer, kind, text); },
          .on_told = [this] { Told(); }};
}

void CallWatch::Called(CallNote note) {
  const absl::Time now = Clock::Steady().Now();
  MutexLock lock(mu_);
  ledger_.Called(std::move(note));
  running_ = {.begun = now};
}

void CallWatch::Ended() {
  MutexLock lock(mu_);
  running_.reset();
}

// A rank tells rank 0 its calls once in an operation. Rank 0 begins to listen.
void CallWatch::Look() {
  PeerLinks* const links = links_.links();
  if (links == nullptr) return;  // not connected yet
  std::string notes;
  bool late = false;
  {
    MutexLock lock(mu_);
    const absl::Time now = Clock::Steady().Now();
    late = !verdict_.ok() && now - judged_ > kPatience;
    const bool suspects = running_ && !running_->told && now - running_->begun >= kPatience;
    if (!(late || suspects)) return;
    if (running_) running_->told = true;
    if (rank_ != 0) notes = ledger_.Notes();
  }
  if (late) return Conclude();
  if (rank_ != 0) return links->Tell(0, LinkFrame::Kind::kNote, std::move(notes));
  links->Hear();
  Judge();
}

absl::Status CallWatch::difference() const {
  MutexLock lock(mu_);
  return difference_;
}

absl::Status CallWatch::ErrorOf(absl::string_view name) const {
  return InOperation(name, difference());
}

absl::Status CallWatch::LeaveError() const {
  const absl::Status difference = this->difference();
  const std::vector<int> left = GoneRanks(difference);
  if (difference.ok() || std::count(left.begin(), left.end(), rank_) > 0) return absl::OkStatus();
  return InOperation("leave", difference);
}

std::vector<int> CallWatch::Culprits(const std::vector<int>& ended) const {
  MutexLock lock(mu_);
  return farewells_.Culprits(ended, rank_);
}

void CallWatch::SayFarewell(const std::vector<int>& culprits) {
  PeerLinks* const links = links_.links();
  {
    MutexLock lock(mu_);
    if (links == nullptr || std::exchange(said_farewell_, true)) return;
    told_ = false;
  }
  bool tells = false;
  for (int next = 1; next < size_ && next <= kFarewellsMax; ++next) {
    const int peer = (rank_ + next) % size_;
    if (std::count(culprits.begin(), culprits.end(), peer) > 0) continue;
    links->Tell(peer, LinkFrame::Kind::kFarewell, EncodeRanks(culprits));
    tells = true;
  }
  const absl::Time end = Clock::Steady().Now() + kFarewellLeaves;
  MutexLock lock(mu_);
  while (tells && !told_ && Clock::Steady().Now() < end)
    (void)told_changed_.WaitFor(mu_, end - Clock::Steady().Now());
}

void CallWatch::Told() {
  {
    MutexLock lock(mu_);
    told_ = true;
    told_changed_.NotifyAll();
  }
  Conclude();
}

// Rank 0 ends once it has told the others, so that they know before they see it end. A peer that
// cannot be told does not hold it up.
void CallWatch::Conclude() {
  absl::Status verdict;
  {
    MutexLock lock(mu_);
    verdict = verdict_;
  }
  if (!verdict.ok()) EndBecause(verdict);
}

// On the thread of the links.
void CallWatch::Heard(int peer, LinkFrame::Kind kind, const std::string& text) {
  if (rank_ == 0 && kind == LinkFrame::Kind::kNote) {
    absl::StatusOr<std::vector<CallNote>> notes = DecodeCallNotes(text, size_);
    if (!notes.ok()) return;  // nobody can act on it
    {
      MutexLock lock(mu_);
      ledger_.Heard(peer, *std::move(notes));
    }
    Judge();
  } else if (peer == 0 && kind == LinkFrame::Kind::kVerdict) {
    EndBecause(absl::InvalidArgumentError(text));
  } else if (peer == 0 && kind == LinkFrame::Kind::kLeft) {
    absl::StatusOr<std::vector<int>> left = DecodeRanks(text, size_);
    if (left.ok()) EndBecause(HaveLeft(*left));
  } else if (kind == LinkFrame::Kind::kFarewell) {
    absl::StatusOr<std::vector<int>> culprits = DecodeRanks(text, size_);
    if (!culprits.ok()) return;
    MutexLock lock(mu_);
    farewells_.Heard(peer, *std::move(culprits));
  }
}

// Rank 0 tells everybody how calls differ. Ranks that have passed the operation fail at their next.
void CallWatch::Judge() {
  absl::Status verdict;
  {
    MutexLock lock(mu_);
    if (!verdict_.ok()) return;
    verdict_ = verdict = ledger_.Check();
    judged_ = Clock::Steady().Now();
  }
  if (verdict.ok()) return;
  const std::vector<int> left = GoneRanks(verdict);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    left.empty()
        ? links_.links()->Tell(peer, LinkFrame::Kind::kVerdict, std::string(verdict.message()))
        : links_.links()->Tell(peer, LinkFrame::Kind::kLeft, EncodeRanks(left));
  }
}

void CallWatch::EndBecause(const absl::Status& difference) {
  {
    MutexLock lock(mu_);
    if (difference_.ok()) difference_ = difference;
  }
  end_();
}

}  // namespace dp::engine
