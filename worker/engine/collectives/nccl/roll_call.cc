#include "worker/engine/collectives/nccl/roll_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::engine {

RollCall::RollCall(Store& store, int rank, int size, Options options, const Clock& clock)
    : store_(store),
      rank_(rank),
      size_(size),
      options_(std::move(options)),
      clock_(clock),
      answer_{Attendance(rank, size, options_.patience), absl::InfinitePast()} {}

void RollCall::Tell(const Part& part) {
  MutexLock lock(mu_);
  const bool listens = part.asking && !part_.asking;
  // An earlier reading would not show who lives now.
  if (listens) {
    answer_.attendance.Listen(clock_.Now());
    answer_.read_at = absl::InfinitePast();
  }
  const bool news = listens || part.fresh_from != part_.fresh_from || part.over != part_.over ||
                    part.beating != part_.beating ||
                    (part.beating && part.arrived != part_.arrived);
  part_ = part;
  if (news) changed_.NotifyAll();
}

RollCall::Answer RollCall::Ask() const {
  MutexLock lock(mu_);
  return answer_;
}

void RollCall::Step() {
  const absl::Time now = clock_.Now();
  const Exchange exchange = Begin(now);
  std::vector<StoreOperation> operations;
  if (exchange.writes) operations.push_back(StoreSet{KeyOf(rank_), ToText(exchange.mine)});
  for (int r : exchange.reads) operations.push_back(StoreGet{KeyOf(r)});
  if (!operations.empty()) End(exchange, now, store_.Execute(operations));
}

void RollCall::AwaitDue() {
  MutexLock lock(mu_);
  while (!closed_) {
    const absl::Duration left = Due() - clock_.Now();
    if (left <= absl::ZeroDuration()) return;
    changed_.WaitFor(mu_, left);
  }
}

void RollCall::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

bool RollCall::closed() const {
  MutexLock lock(mu_);
  return closed_;
}

absl::Time RollCall::Due() const {
  absl::Time due = absl::InfiniteFuture();
  if (part_.over != Over::kNot && said_.over == Over::kNot) due = absl::InfinitePast();
  if (part_.beating && part_.over == Over::kNot)
    due = part_.arrived == said_.arrived ? wrote_at_ + options_.interval : absl::InfinitePast();
  if (part_.asking) due = std::min(due, ReadDue());
  return std::max(due, not_before_);
}

bool RollCall::MustWrite(absl::Time now) const {
  if (part_.over != Over::kNot) return said_.over == Over::kNot;
  return part_.beating && (part_.arrived != said_.arrived || now >= wrote_at_ + options_.interval);
}

bool RollCall::MustRead(absl::Time now) const { return part_.asking && now >= ReadDue(); }

absl::Time RollCall::ReadDue() const {
  if (answer_.read_at < part_.fresh_from) return part_.fresh_from;
  return answer_.read_at + options_.interval;
}

RollCall::Exchange RollCall::Begin(absl::Time now) {
  MutexLock lock(mu_);
  Exchange exchange;
  if (now < not_before_) return exchange;
  exchange.writes = MustWrite(now);
  exchange.mine = {.arrived = part_.arrived, .beat = said_.beat + 1, .over = part_.over};
  if (!MustRead(now)) return exchange;
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && !answer_.attendance.over(r)) exchange.reads.push_back(r);
  // Every peer has given up: there is nothing to read.
  if (exchange.reads.empty()) answer_.read_at = now;
  return exchange;
}

void RollCall::End(const Exchange& exchange, absl::Time begun,
                   const absl::StatusOr<std::vector<StoreResult>>& results) {
  MutexLock lock(mu_);
  if (!results.ok()) {
    not_before_ = begun + options_.interval;
    return;
  }
  if (exchange.writes) {
    said_ = exchange.mine;
    wrote_at_ = begun;
  }
  for (size_t i = 0; i < exchange.reads.size(); ++i) {
    const StoreResult& result = (*results)[i + (exchange.writes ? 1 : 0)];
    const absl::optional<Presence> presence = PresenceFromText(result.value);
    if (result.found && presence.has_value())
      answer_.attendance.Hear(exchange.reads[i], *presence, begun);
  }
  if (!exchange.reads.empty()) answer_.read_at = begun;
}

std::string RollCall::KeyOf(int rank) const {
  return absl::StrCat(options_.prefix, "/", rank, "/presence");
}

}  // namespace dp::engine
