#include "worker/engine/collectives/closed_aside.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace dp::engine {
namespace {

// Turns are counted, not timed: a process that was stopped meanwhile has not hung.
constexpr int kTurns = 20;
// Gloo takes up to 10 ms to close a connection.
constexpr int kRanksPerTurn = 10;
constexpr int kRanksMax = 4096;

class Closing {
 public:
  void Close(std::unique_ptr<Group> group) DP_EXCLUDES(mu_) {
    group.reset();
    MutexLock lock(mu_);
    closed_ = true;
    changed_.NotifyAll();
  }
  // Returns false after so many turns.
  bool Await(int turns, absl::Duration turn) DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!closed_ && turns > 0)
      if (!changed_.WaitFor(mu_, turn)) --turns;
    return closed_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool closed_ DP_GUARDED_BY(mu_) = false;
};

class AsideGroup : public Group {
 public:
  AsideGroup(std::unique_ptr<Group> group, std::function<void()> on_left_behind,
             absl::Duration turn)
      : group_(std::move(group)), on_left_behind_(std::move(on_left_behind)), turn_(turn) {}

  ~AsideGroup() override {
    const int turns = kTurns + std::min(group_->size(), kRanksMax) / kRanksPerTurn;
    auto closing = std::make_shared<Closing>();
    try {
      // Not joined: it may hang.
      std::thread([closing, group = std::move(group_)]() mutable {
        pthread_setname_np(pthread_self(), "group end");
        closing->Close(std::move(group));
      }).detach();
    } catch (const std::system_error&) {
      return;  // the process may have no further thread; the group has ended here
    }
    if (!closing->Await(turns, turn_) && on_left_behind_) on_left_behind_();
  }

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  Group& on_host() override { return group_->on_host(); }
  absl::Span<uint8_t> Allocate(size_t bytes) override { return group_->Allocate(bytes); }
  std::unique_ptr<Work> Start(Collective call) override { return group_->Start(std::move(call)); }
  std::unique_ptr<Work> Pass(const Message& message) override { return group_->Pass(message); }
  std::unique_ptr<Work> Leave() override { return group_->Leave(); }
  void Abort(const absl::Status& why) override { group_->Abort(why); }

 private:
  std::unique_ptr<Group> group_;
  const std::function<void()> on_left_behind_;
  const absl::Duration turn_;
};

}  // namespace

std::unique_ptr<Group> ClosedAside(std::unique_ptr<Group> group,
                                   std::function<void()> on_left_behind, absl::Duration turn) {
  return std::make_unique<AsideGroup>(std::move(group), std::move(on_left_behind), turn);
}

}  // namespace dp::engine
