#include "server/access/refusals.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/program/log.h"
#include "base/utf8.h"

namespace dp::server {
namespace {

std::string Shortened(absl::string_view text) {
  return std::string(Utf8Prefix({text.data(), text.size()}, Refusals::kTextBytesMax));
}

}  // namespace

void Refusals::Add(const Caller& caller, Rpc rpc, const absl::Status& why, absl::Time at) {
  const RefusedCall refusal{at, Shortened(ToString(caller)), caller.peer, rpc,
                            Shortened(why.message())};
  if (!Note(refusal)) return;
  Log(Severity::kWarning, "call_refused",
      {{"rpc", std::string(NameOf(rpc))},
       {"caller", refusal.caller},
       {"peer", refusal.peer},
       {"reason", refusal.reason}});
}

Refusals::Key Refusals::KeyOf(const RefusedCall& call) {
  return {call.caller, call.peer.substr(0, call.peer.rfind(':')), call.rpc, call.reason};
}

void Refusals::AddConnection(const std::string& peer, const absl::Status& why, absl::Time at) {
  const RefusedCall refusal{at, ToString(Caller()), peer, std::nullopt, Shortened(why.message())};
  if (!Note(refusal)) return;
  Log(Severity::kWarning, "connection_shut_down", {{"peer", peer}, {"reason", refusal.reason}});
}

bool Refusals::Note(const RefusedCall& refusal) {
  MutexLock lock(mu_);
  return Keep(refusal) && MayLog(refusal.at);
}

bool Refusals::Keep(RefusedCall refusal) {
  const absl::Time at = refusal.at;
  const auto known = by_key_.find(KeyOf(refusal));
  if (known == by_key_.end()) {
    MakeRoom(refusal.caller);
    ++of_caller_[refusal.caller];
    latest_.push_back({std::move(refusal), at + kLineAgainAfter});
    by_key_.emplace(KeyOf(latest_.back().call), std::prev(latest_.end()));
    return true;
  }
  Kept& kept = *known->second;
  ++kept.call.count;
  kept.call.at = at;
  kept.call.peer = std::move(refusal.peer);
  latest_.splice(latest_.end(), latest_, known->second);
  if (at < kept.due_again) return false;
  kept.due_again = at + kLineAgainAfter;
  return true;
}

void Refusals::MakeRoom(const std::string& caller) {
  if (const auto kept = of_caller_.find(caller);
      kept != of_caller_.end() && kept->second >= kKeptOfCaller) {
    Forget(std::find_if(latest_.begin(), latest_.end(),
                        [&](const Kept& each) { return each.call.caller == caller; }));
  } else if (latest_.size() >= kKept) {
    Forget(latest_.begin());
  }
}

void Refusals::Forget(List::iterator kept) {
  const auto of_caller = of_caller_.find(kept->call.caller);
  if (--of_caller->second == 0) of_caller_.erase(of_caller);
  by_key_.erase(KeyOf(kept->call));
  latest_.erase(kept);
}

std::deque<RefusedCall> Refusals::Latest() const {
  std::deque<RefusedCall> calls;
  MutexLock lock(mu_);
  for (const Kept& kept : latest_) calls.push_back(kept.call);
  return calls;
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
