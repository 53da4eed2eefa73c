#include "server/access/refusals.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/program/log.h"
#include "base/utf8.h"

namespace dp::server {
namespace {

bool IsStranger(const Caller& caller) {
  return caller.kind == Caller::Kind::kStranger || caller.kind == Caller::Kind::kInsecure;
}

std::string Shortened(absl::string_view text) {
  return std::string(Utf8Prefix({text.data(), text.size()}, Refusals::kTextBytesMax));
}

}  // namespace

void Refusals::Add(const Caller& caller, Rpc rpc, const absl::Status& why, absl::Time at) {
  const RefusedCall refusal{at, Shortened(ToString(caller)), caller.peer, rpc,
                            Shortened(why.message())};
  if (!Note(refusal, IsStranger(caller))) return;
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
  if (!Note(refusal, /*of_stranger=*/true)) return;
  Log(Severity::kWarning, "connection_shut_down", {{"peer", peer}, {"reason", refusal.reason}});
}

bool Refusals::Note(const RefusedCall& refusal, bool of_stranger) {
  MutexLock lock(mu_);
  Kept& kept = Keep(refusal, of_stranger);
  LogBudget& budget = of_stranger ? strangers_budget_ : budget_;
  if (refusal.at < kept.due_in_log || !MayLog(budget, refusal.at)) return false;
  kept.due_in_log = refusal.at + kLineAgainAfter;
  return true;
}

Refusals::Kept& Refusals::Keep(const RefusedCall& refusal, bool of_stranger) {
  const Source source = SourceOf(refusal);
  const Key key{source, refusal.rpc, refusal.reason};
  const auto known = by_key_.find(key);
  if (known == by_key_.end()) {
    MakeRoom(source, of_stranger);
    ++of_source_[source];
    of_strangers_ += of_stranger ? 1 : 0;
    latest_.push_back({refusal, of_stranger});
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

void Refusals::MakeRoom(const Source& source, bool for_stranger) {
  if (const auto kept = of_source_.find(source);
      kept != of_source_.end() && kept->second >= kKeptOfCaller) {
    Forget(std::find_if(latest_.begin(), latest_.end(),
                        [&](const Kept& each) { return SourceOf(each.call) == source; }));
  } else if (for_stranger && of_strangers_ >= kKeptOfStrangers) {
    Forget(std::find_if(latest_.begin(), latest_.end(),
                        [](const Kept& each) { return each.of_stranger; }));
  } else if (latest_.size() >= kKept) {
    Forget(latest_.begin());
  }
}

void Refusals::Forget(List::iterator kept) {
  const auto of_source = of_source_.find(SourceOf(kept->call));
  if (--of_source->second == 0) of_source_.erase(of_source);
  of_strangers_ -= kept->of_stranger ? 1 : 0;
  by_key_.erase({SourceOf(kept->call), kept->call.rpc, kept->call.reason});
  latest_.erase(kept);
}

std::deque<RefusedCall> Refusals::Latest() const {
  std::deque<RefusedCall> calls;
  MutexLock lock(mu_);
  for (const Kept& kept : latest_) calls.push_back(kept.call);
  return calls;
}

bool Refusals::MayLog(LogBudget& budget, absl::Time at) {
  const double earned = absl::FDivDuration(at - budget.counted_at, kLineEvery);
  budget.counted_at = at;
  budget.lines_left = std::min<double>(kLinesAtOnce, budget.lines_left + std::max(earned, 0.0));
  if (budget.lines_left < 1) return false;
  budget.lines_left -= 1;
  return true;
}

}  // namespace dp::server
