#include "server/parameters/call_places.h"

#include "absl/strings/str_cat.h"

namespace dp::server {

absl::StatusOr<CallPlaces::Place> CallPlaces::Take(const std::string& caller) {
  {
    MutexLock lock(mu_);
    if (!HasRoomFor(caller)) {
      const bool all = taken_ >= all_max_;
      return absl::UnavailableError(absl::StrCat(all ? "the coordinator" : caller, " has ",
                                                 all ? all_max_ : of_caller_max_, " ", what_,
                                                 ", which is the limit; try again later"));
    }
    Count(caller);
  }
  return PlaceOf(caller);
}

void CallPlaces::Await(const std::string& caller, std::function<void(Place)> then) {
  {
    MutexLock lock(mu_);
    waiting_.push_back({caller, std::move(then)});
  }
  Serve();
}

void CallPlaces::Serve() {
  while (true) {
    Waiting next;
    {
      MutexLock lock(mu_);
      auto first = waiting_.begin();
      while (first != waiting_.end() && !HasRoomFor(first->caller)) ++first;
      if (first == waiting_.end()) return;
      next = std::move(*first);
      waiting_.erase(first);
      Count(next.caller);
    }
    next.then(PlaceOf(next.caller));
  }
}

bool CallPlaces::HasRoomFor(const std::string& caller) const {
  if (taken_ >= all_max_) return false;
  const auto known = of_caller_.find(caller);
  return known == of_caller_.end() || known->second < of_caller_max_;
}

void CallPlaces::Count(const std::string& caller) {
  ++taken_;
  if (!caller.empty()) ++of_caller_[caller];
}

CallPlaces::Place CallPlaces::PlaceOf(const std::string& caller) {
  return Place(nullptr, [this, caller](void*) { GiveBack(caller); });
}

void CallPlaces::GiveBack(const std::string& caller) {
  {
    MutexLock lock(mu_);
    --taken_;
    const auto known = of_caller_.find(caller);
    if (known != of_caller_.end() && --known->second == 0) of_caller_.erase(known);
  }
  Serve();
}

int CallPlaces::taken() const {
  MutexLock lock(mu_);
  return taken_;
}

}  // namespace dp::server
