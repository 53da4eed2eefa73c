#include "store/relay/relay_ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "store/operation_bytes.h"

namespace dp {
namespace {

bool OnlyReads(const std::vector<StoreOperation>& operations) {
  return std::all_of(operations.begin(), operations.end(), IsRead);
}

// PyTorch promises only that these come in order.
bool Divisible(const std::vector<StoreOperation>& operations) {
  const auto is_set = [](const StoreOperation& each) {
    return std::holds_alternative<StoreSet>(each);
  };
  return OnlyReads(operations) || std::all_of(operations.begin(), operations.end(), is_set);
}

absl::Status Misfit(size_t results, size_t operations) {
  return absl::InternalError(absl::StrCat("the coordinator answered ", results, " results to ",
                                          operations, " operations"));
}

}  // namespace

std::vector<StoreOperation> RelayLedger::Wait::Missing() const {
  std::vector<StoreOperation> missing;
  for (size_t i = 0; i < reads.size(); ++i) {
    if (!results[i].found) missing.push_back(reads[i]);
  }
  return missing;
}

void RelayLedger::Wait::Take(std::vector<StoreResult> now) {
  auto next = now.begin();
  for (StoreResult& result : results) {
    if (next == now.end()) return;
    if (!result.found) result = std::move(*next++);
  }
  DP_CHECK(next == now.end());
}

bool RelayLedger::Wait::AllFound() const {
  return std::all_of(results.begin(), results.end(), [](const auto& each) { return each.found; });
}

absl::Status RelayLedger::CheckSize(const std::vector<StoreOperation>& operations) const {
  const bool divisible = Divisible(operations);
  size_t bytes = 0;
  for (const StoreOperation& operation : operations) {
    bytes = (divisible ? 0 : bytes) + BytesOf(operation);
    if (bytes <= limits_.indivisible_bytes) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("a store request takes ", bytes,
                     " bytes or more of a message to the coordinator, which "
                     "has room for ",
                     limits_.indivisible_bytes, "; ask for fewer keys at once"));
  }
  return absl::OkStatus();
}

void RelayLedger::Execute(Caller caller, std::vector<StoreOperation> operations) {
  DP_CHECK(!operations.empty());
  queue_.push_back({caller, false, std::move(operations)});
}

void RelayLedger::Await(Caller caller, std::vector<StoreOperation> reads) {
  DP_CHECK(!reads.empty() && OnlyReads(reads));
  Wait wait;
  wait.results.resize(reads.size());
  wait.reads = std::move(reads);
  Ask(caller, waits_[caller] = std::move(wait));
}

void RelayLedger::Ask(Caller caller, Wait& wait) {
  DP_CHECK(!wait.asking);
  wait.asking = true;
  queue_.push_back({caller, true, wait.Missing()});
}

// A group of the wait may be queued or in flight; its answer is then dropped.
bool RelayLedger::Cancel(Caller caller) {
  const auto it = waits_.find(caller);
  if (it == waits_.end()) return false;
  waits_.erase(it);
  return true;
}

const RelayLedger::Batch* RelayLedger::batch() {
  if (under_way_.empty() && !queue_.empty()) MakeBatch();
  return under_way_.empty() ? nullptr : &batch_;
}

size_t RelayLedger::Fitting(const std::vector<StoreOperation>& more, size_t operations,
                            size_t bytes) const {
  size_t fitting = 0;
  for (const StoreOperation& operation : more) {
    bytes += BytesOf(operation);
    if (operations + fitting == limits_.operations || bytes > limits_.bytes) break;
    ++fitting;
  }
  return fitting;
}

void RelayLedger::MakeBatch() {
  batch_ = {};
  size_t bytes = 0;
  bool full = false;
  while (!queue_.empty() && !full) {
    Group& group = queue_.front();
    size_t taken = group.operations.size();
    const size_t fitting = Fitting(group.operations, batch_.operations.size(), bytes);
    full = fitting < taken;
    if (full && !under_way_.empty()) break;
    if (full && Divisible(group.operations)) taken = std::max<size_t>(fitting, 1);
    for (size_t i = 0; i < taken; ++i) {
      bytes += BytesOf(group.operations[i]);
      batch_.operations.push_back(group.operations[i]);
    }
    batch_.groups.push_back(taken);
    under_way_.push_back(std::move(group));
    queue_.pop_front();
  }
  if (!OnlyReads(batch_.operations)) batch_.sequence = ++sequence_;
}

absl::Status RelayLedger::CheckFits(size_t results) const {
  size_t left = results;
  for (size_t i = 0; i < batch_.groups.size() && left > 0; ++i) {
    const size_t size = batch_.groups[i];
    if (left < size && !OnlyReads(under_way_[i].operations)) break;
    left -= std::min(left, size);
  }
  if (results > 0 && left == 0) return absl::OkStatus();
  return Misfit(results, batch_.operations.size());
}

absl::StatusOr<std::vector<RelayLedger::Answer>> RelayLedger::OnReply(Reply reply) {
  DP_CHECK(!under_way_.empty());
  DP_RETURN_IF_ERROR(CheckFits(reply.results.size()));
  std::map<size_t, absl::Status> refused;
  for (Refusal& refusal : reply.refusals) refused[refusal.group] = std::move(refusal.status);

  std::vector<Answer> answers;
  std::deque<Group> left;
  absl::Span<StoreResult> results = absl::MakeSpan(reply.results);
  for (size_t i = 0; i < batch_.groups.size(); ++i) {
    Group group = std::move(under_way_[i]);
    const absl::Span<StoreResult> its = results.subspan(0, batch_.groups[i]);
    results.remove_prefix(its.size());
    group.Take(its);
    std::optional<Answer> answer;
    if (const auto it = refused.find(i); it != refused.end()) {
      answer = Refuse(group, std::move(it->second));
    } else if (group.operations.empty()) {
      answer = AnswerTo(std::move(group));
    } else {
      left.push_back(std::move(group));
    }
    if (answer.has_value()) answers.push_back(*std::move(answer));
  }
  // The rest goes first into the next batch, to keep the order.
  queue_.insert(queue_.begin(), std::make_move_iterator(left.begin()),
                std::make_move_iterator(left.end()));
  under_way_.clear();
  return answers;
}

void RelayLedger::Group::Take(absl::Span<StoreResult> its) {
  operations.erase(operations.begin(), operations.begin() + static_cast<ptrdiff_t>(its.size()));
  absl::c_move(its, std::back_inserter(results));
}

std::optional<RelayLedger::Answer> RelayLedger::Refuse(const Group& group, absl::Status status) {
  const bool cancelled = group.wait && waits_.erase(group.caller) == 0;
  if (cancelled) return std::nullopt;
  return Answer{group.caller, std::move(status)};
}

std::optional<RelayLedger::Answer> RelayLedger::AnswerTo(Group group) {
  if (!group.wait) return Answer{group.caller, std::move(group.results)};
  const auto it = waits_.find(group.caller);
  if (it == waits_.end()) return std::nullopt;  // cancelled
  Wait& wait = it->second;
  wait.asking = false;
  wait.Take(std::move(group.results));
  if (wait.AllFound()) return AnswerToWait(group.caller);
  unparked_.push_back(group.caller);
  return std::nullopt;
}

RelayLedger::Answer RelayLedger::AnswerToWait(Caller caller) {
  auto wait = waits_.extract(caller);
  return {caller, std::move(wait.mapped().results)};
}

std::vector<RelayLedger::Parking> RelayLedger::TakeParkings() {
  std::vector<Parking> parkings;
  for (const Caller caller : std::exchange(unparked_, {})) {
    const auto it = waits_.find(caller);
    if (it == waits_.end()) continue;
    std::vector<StoreOperation> reads = it->second.Missing();
    it->second.parked = std::max<size_t>(Fitting(reads, 0, 0), 1);
    reads.erase(reads.begin() + it->second.parked, reads.end());
    parkings.push_back({caller, std::move(reads)});
  }
  return parkings;
}

std::optional<RelayLedger::Answer> RelayLedger::OnFound(Caller caller,
                                                        std::vector<StoreResult> results) {
  const auto it = waits_.find(caller);
  if (it == waits_.end()) return std::nullopt;
  Wait& wait = it->second;
  if (results.size() != wait.parked) {
    const absl::Status misfit = Misfit(results.size(), wait.parked);
    waits_.erase(it);
    return Answer{caller, misfit};
  }
  wait.Take(std::move(results));
  if (wait.AllFound()) return AnswerToWait(caller);
  unparked_.push_back(caller);
  return std::nullopt;
}

void RelayLedger::OnUnparked(Caller caller) {
  const auto it = waits_.find(caller);
  if (it != waits_.end()) Ask(caller, it->second);
}

std::vector<RelayLedger::Answer> RelayLedger::End(const absl::Status& status) {
  std::vector<Answer> answers;
  for (const std::deque<Group>* groups : {&under_way_, &queue_}) {
    for (const Group& group : *groups) {
      if (!group.wait) answers.push_back({group.caller, status});
    }
  }
  for (const auto& [caller, wait] : waits_) answers.push_back({caller, status});
  under_way_.clear();
  queue_.clear();
  waits_.clear();
  unparked_.clear();
  return answers;
}

}  // namespace dp
