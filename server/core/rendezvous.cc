#include "server/core/rendezvous.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace dp::core {

Rendezvous::Rendezvous(int size) : Rendezvous(WorldState::kForming, size, {}, "") {
  DP_CHECK(size > 0);
}

Rendezvous::Rendezvous(WorldState state, int size, std::set<int> members,
                       std::string closing_reason)
    : state_(state), size_(size), joined_(std::move(members)), reason_(std::move(closing_reason)) {
  for (int rank = 0; rank < size_; ++rank) {
    if (!joined(rank)) missing_.insert(missing_.end(), rank);
  }
  // Does not compile if a member is added. A member that cannot be derived must become an argument
  // and a part of snapshots.
  [[maybe_unused]] const auto& [a, b, c, d, e] = *this;
}

absl::StatusOr<bool> Rendezvous::Join(int rank) {
  if (rank < 0 || rank >= size_) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " is outside a world of ", size_, " ranks"));
  }
  if (state_ == WorldState::kClosed) {
    return absl::FailedPreconditionError(absl::StrCat("the world is closed: ", reason_));
  }
  if (!joined_.insert(rank).second) return false;
  missing_.erase(rank);
  if (joined_.size() == static_cast<size_t>(size_)) state_ = WorldState::kSealed;
  return true;
}

void Rendezvous::Close(std::string reason) {
  if (state_ == WorldState::kClosed) return;
  state_ = WorldState::kClosed;
  reason_ = std::move(reason);
}

}  // namespace dp::core
