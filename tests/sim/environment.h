#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/random.h"

namespace dp::sim {

// The number of jobs that a run submits. Their ids begin at 1.
inline constexpr int kJobs = 6;

// Random choices; the same seed gives the same choices.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}

  uint64_t Seed() { return NextRandom(state_); }
  int Below(int bound) { return static_cast<int>(NextRandom(state_) % bound); }
  bool Chance(double probability) { return UnitInterval(NextRandom(state_)) < probability; }
  // In whole nanoseconds, like the system's clock and the times in the journal.
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return absl::Trunc(low + (high - low) * UnitInterval(NextRandom(state_)), absl::Nanoseconds(1));
  }

 private:
  uint64_t state_;
};

// Virtual time: it jumps to the next event, and nothing else takes time.
class EventQueue {
 public:
  using Event = std::function<void()>;

  // Events of the same time run in the order in which they were added. Times are whole nanoseconds,
  // like the system's clock, so that snapshots keep them exactly.
  void After(absl::Duration delay, Event event) {
    const absl::Duration whole = absl::Trunc(delay, absl::Nanoseconds(1));
    events_.emplace(std::pair(now_ + whole, ++last_), std::move(event));
  }
  // Returns false, and does nothing, if the next event is later than `end`.
  bool RunOne(absl::Time end) {
    if (events_.empty() || events_.begin()->first.first > end) return false;
    auto node = events_.extract(events_.begin());
    now_ = node.key().first;
    node.mapped()();
    return true;
  }

  absl::Time now() const { return now_; }

 private:
  absl::Time now_ = absl::UnixEpoch();
  uint64_t last_ = 0;
  std::map<std::pair<absl::Time, uint64_t>, Event> events_;
};

// A bug planted in the simulated driver or daemon, to see that the checks find it.
enum class Plant {
  kNone,
  kReplyBeforeSync,    // the driver answers what a crash can undo
  kIgnoreIncarnation,  // the driver accepts any incarnation of a worker as the current one
  kLoseWakes,          // the driver forgets to wake the watchers of worlds
  kForgetRetries,      // the driver applies a repeated store batch again
  kTakeSignalForEnd,   // the daemon counts SIGTERM as the end of the process
  kOutliveTouch,       // the daemon does not stop commands when it is cut off
  kShortenAtOnce,      // a shorter lease counts before the daemon knows of it
  kEndOnTakenName,     // the daemon proves nothing, and exits if its name's holder seems to beat
  kReplaceTooSoon,     // the daemon names an incarnation dead whose ranks still run
};

// The state that all parts of one simulation share.
struct Environment {
  Environment(uint64_t seed, Plant planted, bool is_verbose)
      : dice(seed), plant(planted), verbose(is_verbose) {}

  // Records a broken promise if `holds` is false.
  void Expect(bool holds, absl::string_view promise);
  // Prints one line of the story, if verbose.
  void Tell(absl::string_view what) const;

  EventQueue events;
  Dice dice;
  const Plant plant;
  const bool verbose;
  std::vector<std::string> broken;
};

}  // namespace dp::sim
