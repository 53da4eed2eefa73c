#include "worker/engine/collectives/links/group_links.h"

#include <utility>

#include "worker/engine/collectives/ended_work.h"

namespace dp::engine {

void GroupLinks::Open(absl::StatusOr<LinkMembership> membership, PeerLinks::Options hooks) {
  hooks.timeout = timeout_;
  hooks.on_failure = [this](const absl::Status& why) { queue_.Break(why); };
  auto opened = std::make_unique<PeerLinks>(std::move(membership), std::move(hooks));
  MutexLock lock(mu_);
  links_ = std::move(opened);
}

std::unique_ptr<Work> GroupLinks::Pass(const Message& message) {
  if (absl::Status failure = queue_.failure(); !failure.ok())
    return std::make_unique<EndedWork>(std::move(failure));
  return links()->Pass(message);
}

void GroupLinks::Abort(const absl::Status& why) {
  if (PeerLinks* const open = links()) open->Abort(why);
}

PeerLinks* GroupLinks::links() const {
  MutexLock lock(mu_);
  return links_.get();
}

}  // namespace dp::engine
