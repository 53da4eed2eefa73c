#pragma once

#include <cstdint>
#include <optional>

#include "server/core/coordinator.h"

namespace dp::torture {

// Draws commands of every kind, with arguments that suit the current state. Jobs are placed, run,
// save, fail, restart, leave and are forgotten; workers come, are drained and go. A drawn command
// may still be rejected or change nothing. A new kind of command does not compile here until it has
// a draw. Everything follows from the seed. Not thread-safe.
class RandomCommands {
 public:
  explicit RandomCommands(uint64_t seed) : random_(seed) {}

  core::Action Draw(const core::Coordinator& coordinator);

 private:
  template <typename Kind>
  struct Of {};
  // Draws the kind with this index. Nullopt if the state has nothing to apply it to.
  template <size_t kIndex>
  static std::optional<core::Action> DrawKind(RandomCommands& draws);

  std::optional<core::Action> Make(Of<core::StartEpoch>);
  std::optional<core::Action> Make(Of<core::SubmitJob>);
  std::optional<core::Action> Make(Of<core::CancelJob>);
  std::optional<core::Action> Make(Of<core::PlaceJob>);
  std::optional<core::Action> Make(Of<core::RegisterWorker>);
  std::optional<core::Action> Make(Of<core::LoseWorker>);
  std::optional<core::Action> Make(Of<core::LeaveWorker>);
  std::optional<core::Action> Make(Of<core::ReportRank>);
  std::optional<core::Action> Make(Of<core::JoinWorld>);
  std::optional<core::Action> Make(Of<core::AccusePeers>);
  std::optional<core::Action> Make(Of<core::StoreBatch>);
  std::optional<core::Action> Make(Of<core::RegisterCheckpoint>);
  std::optional<core::Action> Make(Of<core::RegisterWeights>);
  std::optional<core::Action> Make(Of<core::AskHandover>);
  std::optional<core::Action> Make(Of<core::RetryJob>);
  std::optional<core::Action> Make(Of<core::FinishJob>);
  std::optional<core::Action> Make(Of<core::HoldJob>);
  std::optional<core::Action> Make(Of<core::ReleaseJob>);
  std::optional<core::Action> Make(Of<core::PrioritizeJob>);
  std::optional<core::Action> Make(Of<core::RequeueJob>);
  std::optional<core::Action> Make(Of<core::ExpireJob>);
  std::optional<core::Action> Make(Of<core::ForgetJob>);
  std::optional<core::Action> Make(Of<core::DrainWorker>);
  std::optional<core::Action> Make(Of<core::UndrainWorker>);
  std::optional<core::Action> Make(Of<core::GiveUpRank>);
  std::optional<core::Action> Make(Of<core::ReportSlots>);
  std::optional<core::Action> Make(Of<core::CompleteFirstStep>);
  std::optional<core::Action> Make(Of<core::StopEarly>);
  std::optional<core::Action> Make(Of<core::GrantRole>);
  std::optional<core::Action> Make(Of<core::RevokeAccess>);
  std::optional<core::Action> Make(Of<core::UseToken>);

  // Draws what keeps the cluster going, more often than the rest: workers, placements, rank reports
  // and the stores.
  std::optional<core::Action> DrawCommon();
  size_t Below(size_t bound);
  bool Chance(int percent) { return Below(100) < static_cast<size_t>(percent); }
  // Null if there is none.
  template <typename Suits>
  const core::Job* AnyJob(Suits suits);
  const core::Worker* AnyWorker();
  // A rank of a job that has ranks.
  std::optional<core::RankKey> AnyRank();

  uint64_t random_;
  uint64_t drawn_ = 0;
  const core::Coordinator* coordinator_ = nullptr;  // during a draw
};

}  // namespace dp::torture
