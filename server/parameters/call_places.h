#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace dp::server {

// Bounds the calls that do something at a time: all together, and those of one caller. Callers in
// plain text have no name, "", and count among all only. Thread-safe.
class CallPlaces {
 public:
  // One call's place. Given back when destroyed. Must not outlive the places.
  using Place = std::shared_ptr<void>;

  // `what` the calls do, for errors: "calls that wait for parameters".
  CallPlaces(int all_max, int of_caller_max, std::string what)
      : all_max_(all_max), of_caller_max_(of_caller_max), what_(std::move(what)) {}

  // Errors: Unavailable names the bound.
  absl::StatusOr<Place> Take(const std::string& caller) DP_EXCLUDES(mu_);
  // Calls `then` once, with a place: at once, or when another call gives its place back, on that
  // call's thread. It must not block.
  void Await(const std::string& caller, std::function<void(Place)> then) DP_EXCLUDES(mu_);

  int taken() const DP_EXCLUDES(mu_);

 private:
  struct Waiting {
    std::string caller;
    std::function<void(Place)> then;
  };

  bool HasRoomFor(const std::string& caller) const DP_REQUIRES(mu_);
  void Count(const std::string& caller) DP_REQUIRES(mu_);
  Place PlaceOf(const std::string& caller);
  void GiveBack(const std::string& caller) DP_EXCLUDES(mu_);
  // Gives free places to those who wait.
  void Serve() DP_EXCLUDES(mu_);

  const int all_max_;
  const int of_caller_max_;
  const std::string what_;

  mutable Mutex mu_;
  int taken_ DP_GUARDED_BY(mu_) = 0;
  std::map<std::string, int> of_caller_ DP_GUARDED_BY(mu_);  // never zero
  std::list<Waiting> waiting_ DP_GUARDED_BY(mu_);            // the longest wait first
};

}  // namespace dp::server
