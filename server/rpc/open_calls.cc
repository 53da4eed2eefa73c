#include "server/rpc/open_calls.h"

#include <algorithm>

#include "base/check.h"

namespace dp::server {

OpenCalls::Id OpenCalls::Begin(absl::Time now) {
  calls_.emplace(++last_, Call{now});
  return last_;
}

void OpenCalls::Answer(Id call, size_t bytes, absl::Time now) {
  const auto known = calls_.find(call);
  if (known == calls_.end()) return;
  DP_CHECK(known->second.answer == 0);
  known->second.answer = ++last_answer_;
  sent_.emplace(last_answer_, Sent{call, bytes, now});
  answer_bytes_ += bytes;
}

void OpenCalls::End(Id call) {
  const auto known = calls_.find(call);
  if (known == calls_.end()) return;
  if (const auto sent = sent_.find(known->second.answer); sent != sent_.end()) {
    answer_bytes_ -= sent->second.bytes;
    sent_.erase(sent);
  }
  calls_.erase(known);
}

std::vector<OpenCalls::Id> OpenCalls::TakeOverdue(absl::Time now) {
  std::vector<Id> overdue;
  const auto take = [&](Id call) {
    overdue.push_back(call);
    End(call);
  };
  while (!calls_.empty() && now - calls_.begin()->second.begun_at >= limits_.lasts) {
    take(calls_.begin()->first);
  }
  while (answer_bytes_ > limits_.answer_bytes &&
         now - sent_.begin()->second.at >= limits_.taken_within) {
    take(sent_.begin()->second.call);
  }
  return overdue;
}

absl::Time OpenCalls::next_at() const {
  absl::Time next = absl::InfiniteFuture();
  if (!calls_.empty()) next = calls_.begin()->second.begun_at + limits_.lasts;
  if (answer_bytes_ > limits_.answer_bytes) {
    next = std::min(next, sent_.begin()->second.at + limits_.taken_within);
  }
  return next;
}

}  // namespace dp::server
