#include "worker/engine/collectives/links/peer_links.h"

#include <utility>

#include "base/status.h"
#include "worker/engine/collectives/ended_work.h"
#include "worker/engine/collectives/links/link_loop.h"
#include "worker/engine/collectives/links/pending_message.h"

namespace dp::engine {

PeerLinks::PeerLinks(absl::StatusOr<LinkMembership> membership, Options options)
    : why_none_(membership.status()),
      timeout_(options.timeout),
      loop_(membership.ok() ? std::make_unique<LinkLoop>(*std::move(membership), std::move(options))
                            : nullptr) {}

PeerLinks::~PeerLinks() {
  if (loop_ == nullptr) return;
  loop_->Close();
  std::jthread thread;  // joined without the lock, which a callback may want
  MutexLock lock(mu_);
  closing_ = true;
  std::swap(thread, thread_);
}

void PeerLinks::Start() {
  MutexLock lock(mu_);
  if (!closing_ && !thread_.joinable()) thread_ = std::jthread([this] { loop_->Run(); });
}

std::unique_ptr<Work> PeerLinks::Pass(const Message& message) {
  auto pending = std::make_shared<PendingMessage>(message, timeout_);
  if (absl::Status begun = Begin(pending); !begun.ok())
    return std::make_unique<EndedWork>(std::move(begun));
  return std::make_unique<MessageWork>(std::move(pending));
}

absl::Status PeerLinks::Begin(std::shared_ptr<PendingMessage> message) {
  if (loop_ == nullptr) return why_none_;
  DP_RETURN_IF_ERROR(loop_->Push(std::move(message)));
  Start();
  return absl::OkStatus();
}

bool PeerLinks::Leave() {
  {
    MutexLock lock(mu_);
    if (!thread_.joinable()) return true;  // no message has been called
  }
  return loop_->Leave();
}

void PeerLinks::Tell(int peer, LinkFrame::Kind kind, std::string text) {
  if (loop_ == nullptr) return;
  loop_->Tell(peer, kind, std::move(text));
  Start();
}

void PeerLinks::Hear() {
  if (loop_ != nullptr) Start();
}

void PeerLinks::CatchUp() {
  if (loop_ == nullptr) return;
  Start();
  loop_->CatchUp();
}

bool PeerLinks::HasCaughtUp() {
  if (loop_ == nullptr) return true;
  Start();
  return loop_->HasCaughtUp();
}

void PeerLinks::Abort(const absl::Status& why) {
  if (loop_ != nullptr) loop_->Abort(why);
}

void PeerLinks::Break(const absl::Status& why) {
  if (loop_ != nullptr) loop_->FailAll(why);
}

}  // namespace dp::engine
