#include "server/access/refusals.h"

#include <algorithm>

#include "base/program/log.h"
#include "base/utf8.h"

namespace dp::server {
namespace {

std::string Shortened(absl::string_view text) {
  return std::string(Utf8Prefix({text.data(), text.size()}, Refusals::kTextBytesMax));
}

}  // namespace

void Refusals::Add(const Caller& caller, Rpc rpc, const absl::Status& why, absl::Time at) {
  RefusedCall refusal{at, Shortened(ToString(caller)), caller.peer, rpc, Shortened(why.message())};
  {
    MutexLock lock(mu_);
    if (!latest_.empty() && latest_.back().caller == refusal.caller && latest_.back().rpc == rpc &&
        latest_.back().reason == refusal.reason) {
      ++latest_.back().count;
      latest_.back().at = at;
      return;
    }
    latest_.push_back(refusal);
    if (latest_.size() > kKept) latest_.pop_front();
    if (!MayLog(at)) return;
  }
  Log(Severity::kWarning, "call_refused",
      {{"rpc", std::string(NameOf(rpc))},
       {"caller", refusal.caller},
       {"peer", refusal.peer},
       {"reason", refusal.reason}});
}

std::deque<RefusedCall> Refusals::Latest() const {
  MutexLock lock(mu_);
  return latest_;
}

bool Refusals::MayLog(absl::Time at) {
  const double earned = absl::FDivDuration(at - counted_at_, kLineEvery);
  counted_at_ = at;
  lines_left_ = std::min<double>(kLinesAtOnce, lines_left_ + std::max(earned, 0.0));
  if (lines_left_ < 1) return false;
  lines_left_ -= 1;
  return true;
}

}  // namespace dp::server
