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

// How many jobs a run submits; the first are numbered so.
inline constexpr int kJobs = 6;

// Random choices; the same seed makes the same ones.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}

  uint64_t Seed() { return NextRandom(state_); }
  int Below(int bound) { return static_cast<int>(NextRandom(state_) % bound); }
  bool Chance(double probability) { return UnitInterval(NextRandom(state_)) < probability; }
  // In whole nanoseconds, as the system's clock goes and the journal keeps times.
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return absl::Trunc(low + (high - low) * UnitInterval(NextRandom(state_)), absl::Nanoseconds(1));
  }

 private:
  uint64_t state_;
};

// Virtual time: it moves to the next event, and nothing else takes any.
class EventQueue {
 public:
  using Event = std::function<void()>;

  // Events of the same time happen in the order in which they were asked for. In whole nanoseconds,
  // as the system's clock goes: what a snapshot keeps of a time is then all of it.
  void After(absl::Duration delay, Event event) {
    const absl::Duration whole = absl::Trunc(delay, absl::Nanoseconds(1));
    events_.emplace(std::pair(now_ + whole, ++last_), std::move(event));
  }
  // Returns false, and does nothing, when the next event is later than `end`.
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

// A bug put into the simulated shell or daemon on purpose, to see that the checks find it.
enum class Plant {
  kNone,
  kReplyBeforeSync,    // the shell answers what a crash can undo
  kIgnoreIncarnation,  // the shell takes any life of a worker for the current one
  kLoseWakes,          // the shell forgets to wake the watchers of worlds
  kForgetRetries,      // the shell takes a repeated store batch for a new one
  kTakeSignalForEnd,   // the daemon takes SIGTERM for the end of the process
  kOutliveTouch,       // the daemon leaves commands alone when it is cut off
  kShortenAtOnce,      // a shorter lease holds, and the daemon does not know of it
  kEndOnTakenName,     // the daemon proves nothing, and ends where its name's holder seems to beat
  kReplaceTooSoon,     // the daemon names a life dead whose ranks still run
};

// What all parts of one simulation share.
struct Environment {
  Environment(uint64_t seed, Plant planted, bool is_verbose)
      : dice(seed), plant(planted), verbose(is_verbose) {}

  // Records a broken promise when `holds` is false.
  void Expect(bool holds, absl::string_view promise);
  // One line of the story, printed when verbose.
  void Tell(absl::string_view what) const;

  EventQueue events;
  Dice dice;
  const Plant plant;
  const bool verbose;
  std::vector<std::string> broken;
};

}  // namespace dp::sim
