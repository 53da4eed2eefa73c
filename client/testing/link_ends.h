#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "gtest/gtest.h"
#include "store/relay/store_link.h"

namespace dp::client {

// Only a failing test waits this long.
inline constexpr absl::Duration kLinkPatience = absl::Seconds(30);

// How waits have ended, by key; each wait ends once. Thread-safe.
class LinkEnds {
 public:
  using Results = absl::StatusOr<std::vector<StoreResult>>;

  StoreLink::Done<std::vector<StoreResult>> Of(const std::string& key) {
    return [this, key](Results results) {
      MutexLock lock(mu_);
      EXPECT_TRUE(ends_.emplace(key, std::move(results)).second) << key << " ended twice";
      changed_.NotifyAll();
    };
  }
  Results Await(const std::string& key) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!ends_.contains(key)) {
      if (!changed_.WaitFor(mu_, kLinkPatience)) return absl::UnknownError("it has not ended");
    }
    return ends_.at(key);
  }
  // Awaits the end and removes it, so that the key may be used again.
  void Take(const std::string& key) DP_EXCLUDES(mu_) {
    EXPECT_TRUE(Await(key).ok());
    MutexLock lock(mu_);
    ends_.erase(key);
  }
  size_t size() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return ends_.size();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::map<std::string, Results> ends_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::client
