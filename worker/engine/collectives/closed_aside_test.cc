#include "worker/engine/collectives/closed_aside.h"

#include <utility>

#include "base/mutex.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/local/local_group.h"

namespace dp::engine {
namespace {

// The end of a group: whether the test allows it, and whether it has come.
struct GroupEnd {
  void Let() {
    MutexLock lock(mu);
    let = true;
    changed.NotifyAll();
  }
  void AwaitEnded() {
    MutexLock lock(mu);
    while (!ended) changed.Wait(mu);
  }

  Mutex mu;
  CondVar changed;
  bool let DP_GUARDED_BY(mu) = false;
  bool ended DP_GUARDED_BY(mu) = false;
};

// A group of one rank whose destructor blocks until the test lets it end.
class BlockedGroup : public Group {
 public:
  explicit BlockedGroup(GroupEnd& ends) : ends_(ends) {}
  ~BlockedGroup() override {
    MutexLock lock(ends_.mu);
    while (!ends_.let) ends_.changed.Wait(ends_.mu);
    ends_.ended = true;
    ends_.changed.NotifyAll();
  }

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<Work> Start(Collective call) override { return local_->Start(std::move(call)); }
  std::unique_ptr<Work> Leave() override { return local_->Leave(); }
  void Abort(const absl::Status& why) override { local_->Abort(why); }

 private:
  GroupEnd& ends_;
  const std::unique_ptr<Group> local_ = std::move(MakeLocalGroups(1)[0]);
};

TEST(ClosedAsideTest, AGroupThatDoesNotEndIsLeftBehindAndReportedOnce) {
  GroupEnd ends;
  int reports = 0;
  auto group = ClosedAside(
      std::make_unique<BlockedGroup>(ends), [&] { ++reports; }, absl::Milliseconds(1));
  EXPECT_EQ(group->Barrier()->Wait(), absl::OkStatus());
  group.reset();
  EXPECT_EQ(reports, 1);
  ends.Let();
  ends.AwaitEnded();  // it was left with all that it holds, and may end later
}

TEST(ClosedAsideTest, AGroupThatEndsIsAwaited) {
  GroupEnd ends;
  ends.Let();
  auto group = ClosedAside(
      std::make_unique<BlockedGroup>(ends), [] { FAIL() << "it ends"; }, absl::Minutes(1));
  group.reset();
  MutexLock lock(ends.mu);
  EXPECT_TRUE(ends.ended);
}

}  // namespace
}  // namespace dp::engine
