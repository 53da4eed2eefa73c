#pragma once

#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace dp::server {

// How many calls of each caller are in flight. Pure. Not thread-safe.
class CallsInFlight {
 public:
  using Call = const void*;

  // A call that is begun and has not ended counts for the caller that it began with.
  void Begin(Call call, const std::string& caller);
  // Without effect on one that is not in flight.
  void End(Call call);

  size_t Of(absl::string_view caller) const;
  size_t size() const { return calls_.size(); }

 private:
  absl::flat_hash_map<Call, std::string> calls_;
  absl::flat_hash_map<std::string, size_t> callers_;  // never zero
};

}  // namespace dp::server
