#include "tests/torture/torture.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status.h"
#include "server/driver/journal.h"

namespace dp::torture {
namespace {

constexpr server::SnapshotPolicy kSnapshots = {.commands = 12, .written_again_max = 1000};
// Small enough that a short run has checkpoints, and snapshots of several pieces.
constexpr int kWalPages = 12;
constexpr size_t kPieceBytes = 2000;

}  // namespace

Torture::Torture(uint64_t seed, Plant plant)
    : plant_(plant),
      disk_(seed),
      random_(seed),
      commands_(seed),
      digests_({{0, core::Coordinator().StateDigest()}}) {
  if (plant == Plant::kIgnoreSyncs) disk_.IgnoreSyncs();
  batch_ends_ = {0};
}

void Torture::Live(int batches) {
  coordinator_ = core::Coordinator();
  began_ = false;
  const absl::Status status = Work(batches);
  if (!status.ok() && !disk_.failed()) Break(absl::StrCat("without a fault: ", status.ToString()));
  if (status.ok() && disk_.erred()) Break("a fault of the disk went unnoticed");
  // If creating the journal failed, journal_ is null: SQLite itself rolls an empty journal back.
  const bool failed = disk_.failed() && journal_ != nullptr;
  const int64_t tried = disk_.tried_after_error();
  journal_.reset();
  if (failed && tried > 0) Break("something was tried after an error of the disk");
  if (failed && disk_.tried_after_error() > tried) Break("closing wrote to a disk that has failed");
}

absl::Status Torture::TryStart() {
  coordinator_ = core::Coordinator();
  const absl::Status status = Recover();
  journal_.reset();
  return status;
}

absl::Status Torture::Work(int batches) {
  DP_RETURN_IF_ERROR(Recover());
  for (int batch = 0; batch < batches; ++batch) {
    const absl::Status status = Commit(batch == 0 ? 1 : 1 + NextRandom(random_) % 4);
    if (!status.ok() && plant_ == Plant::kGoOnAfterError) (void)Commit(1);
    DP_RETURN_IF_ERROR(status);
  }
  while (journal_->compacting()) DP_RETURN_IF_ERROR(journal_->Maintain());
  return absl::OkStatus();
}

absl::Status Torture::Recover() {
  DP_ASSIGN_OR_RETURN(
      journal_, server::SqliteJournal::Open("/journal.sqlite",
                                            {.vfs = disk_.name(),
                                             .wal_pages = kWalPages,
                                             .piece_bytes = kPieceBytes,
                                             .mark_sync = server::SqliteMark::Sync::kAtOnce}));
  if (!disk_.SyncDirectory()) {
    journal_.reset();  // the journal has not failed, so it may close normally
    return absl::InternalError("the directory cannot be synced");
  }
  DP_RETURN_IF_ERROR(journal_->Replay(
      [&](core::State state) { coordinator_ = core::Coordinator(std::move(state)); },
      [&](const core::Command& command) {
        if (!coordinator_.Apply(command).journal)
          Break("a command was recovered that says nothing");
      }));
  CheckRecovered();
  return absl::OkStatus();
}

void Torture::CheckRecovered() {
  const uint64_t found = coordinator_.revision().value();
  const auto written = digests_.find(found);
  if (found < acknowledged_) {
    Break(absl::StrCat("revision ", acknowledged_, " was acknowledged, recovered is ", found));
  } else if (written == digests_.end()) {
    Break(absl::StrCat("revision ", found, " was recovered, and never written"));
  } else if (coordinator_.StateDigest() != written->second) {
    Break(absl::StrCat("the state of revision ", found, " is another one"));
  } else if (!std::binary_search(batch_ends_.begin(), batch_ends_.end(), found)) {
    Break(absl::StrCat("half of a batch was recovered, up to revision ", found));
  }
  digests_.erase(digests_.upper_bound(found), digests_.end());
  std::erase_if(batch_ends_, [found](uint64_t end) { return end > found; });
}

// In the driver's order: apply, make durable, answer, maintain.
absl::Status Torture::Commit(int commands) {
  std::vector<core::Command> batch;
  for (int i = 0; i < commands; ++i) {
    DP_CHECK(ApplyNext(&batch.emplace_back()).status.ok());
    digests_[coordinator_.revision().value()] = coordinator_.StateDigest();
  }
  const uint64_t revision = coordinator_.revision().value();
  batch_ends_.push_back(revision);
  if (plant_ == Plant::kAnswerBeforeSync) acknowledged_ = revision;
  DP_RETURN_IF_ERROR(Append(batch));
  acknowledged_ = revision;
  if (!journal_->compacting() && kSnapshots.Due(journal_->tail())) {
    journal_->TakeSnapshot(coordinator_.state());
    ++snapshots_;
  }
  return journal_->Maintain();
}

absl::Status Torture::Append(const std::vector<core::Command>& batch) {
  if (plant_ != Plant::kHalfBatches) return journal_->Append(batch);
  for (const core::Command& command : batch) DP_RETURN_IF_ERROR(journal_->Append({&command, 1}));
  return absl::OkStatus();
}

// The first command of a run starts its epoch. A command that would change nothing is drawn again.
core::Outcome Torture::ApplyNext(core::Command* command) {
  for (;;) {
    command->at = absl::FromUnixSeconds(static_cast<int64_t>(digests_.size()));
    command->action = std::exchange(began_, true) ? commands_.Draw(coordinator_)
                                                  : core::Action(core::StartEpoch());
    core::Outcome outcome = coordinator_.Apply(*command);
    if (outcome.journal) return outcome;
  }
}

void Torture::Break(const std::string& what) { broken_.push_back(what); }

}  // namespace dp::torture
