#include "server/access/calls_in_flight.h"

namespace dp::server {

void CallsInFlight::Begin(Call call, const std::string& caller) {
  if (calls_.emplace(call, caller).second) ++callers_[caller];
}

void CallsInFlight::End(Call call) {
  const auto known = calls_.find(call);
  if (known == calls_.end()) return;
  const auto caller = callers_.find(known->second);
  if (--caller->second == 0) callers_.erase(caller);
  calls_.erase(known);
}

size_t CallsInFlight::Of(absl::string_view caller) const {
  const auto known = callers_.find(caller);
  return known == callers_.end() ? 0 : known->second;
}

}  // namespace dp::server
