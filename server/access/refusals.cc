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

Refusals::Source Refusals::SourceOf(const RefusedCall& call) {
  return {call.caller, call.peer.substr(0, call.peer.rfind(':'))};
}

void Refusals::AddConnection(const std::string& caller, const std::string& peer,
                             const absl::Status& why, absl::Time at) {
  const RefusedCall refusal{at, caller, peer, std::nullopt, Shortened(why.message())};
  if (!Note(refusal)) return;
  Log(Severity::kWarning, "connection_shut_down", {{"peer", peer}, {"reason", refusal.reason}});
}

bool Refusals::Note(const RefusedCall& refusal) {
  MutexLock lock(mu_);
  Kept& kept = Keep(refusal);
  if (refusal.at < kept.due_in_log || !MayLog(refusal.at)) return false;
  kept.due_in_log = refusal.at + kLineAgainAfter;
  return true;
}

Refusals::Kept& Refusals::Keep(const RefusedCall& refusal) {
  const Source source = SourceOf(refusal);
  const Key key{source, refusal.rpc, refusal.reason};
  const auto known = by_key_.find(key);
  if (known == by_key_.end()) {
    MakeRoom(source);
    ++of_source_[source];
    latest_.push_back({refusal});
    by_key_.emplace(key, std::prev(latest_.end()));
    return latest_.back();
  }
  Kept& kept = *known->second;
  ++kept.call.count;
  kept.call.at = refusal.at;
  kept.call.peer = refusal.peer;
  latest_.splice(latest_.end(), latest_, known->second);
  return kept;
}

void Refusals::MakeRoom(const Source& source) {
  if (const auto kept = of_source_.find(source);
      kept != of_source_.end() && kept->second >= kKeptOfCaller) {
    Forget(std::find_if(latest_.begin(), latest_.end(),
                        [&](const Kept& each) { return SourceOf(each.call) == source; }));
  } else if (latest_.size() >= kKept) {
    Forget(latest_.begin());
  }
}

void Refusals::Forget(List::iterator kept) {
  const auto of_source = of_source_.find(SourceOf(kept->call));
  if (--of_source->second == 0) of_source_.erase(of_source);
  by_key_.erase({SourceOf(kept->call), kept->call.rpc, kept->call.reason});
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
