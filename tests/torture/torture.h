#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/core/coordinator.h"
#include "server/shell/sqlite_journal.h"
#include "tests/torture/random_commands.h"
#include "tests/torture/sqlite_fault_disk.h"

namespace dp::torture {

// Bugs that the checks must find.
enum class Plant {
  kNone,
  kIgnoreSyncs,       // as SQLite's synchronous=OFF
  kAnswerBeforeSync,  // acknowledges what Append has not yet made durable
  kHalfBatches,       // a transaction for each command
  kGoOnAfterError,    // appends again after an error
};

// Lives of a coordinator on one disk: each replays the journal, checks what it finds against what
// the lives before have acknowledged, and goes on working, until it has done its batches or the
// disk fails. The journal, its snapshots and the machine are the real ones; the loop is the
// driver's, without its thread. Everything follows from the seed.
class Torture {
 public:
  Torture(uint64_t seed, Plant plant);

  FaultDisk& disk() { return disk_; }
  // One life. What it finds broken goes into broken().
  void Live(int batches);
  // A start on files that somebody has changed, and its end. It may be refused; what it wrongly
  // accepts goes into broken().
  absl::Status TryStart();
  const std::vector<std::string>& broken() const { return broken_; }
  // Commands of all lives that were acknowledged, and snapshots that were begun.
  uint64_t acknowledged() const { return acknowledged_; }
  int snapshots() const { return snapshots_; }

 private:
  // The disk has failed, or the life has done its work.
  absl::Status Work(int batches);
  absl::Status Recover();
  void CheckRecovered();
  // Applies so many commands and makes them durable, as one batch.
  absl::Status Commit(int commands);
  absl::Status Append(const std::vector<core::Command>& batch);
  // Draws a command that changes something, and applies it.
  core::Outcome ApplyNext(core::Command* command);
  void Break(const std::string& what);

  const Plant plant_;
  FaultDisk disk_;
  uint64_t random_;
  RandomCommands commands_;
  std::vector<std::string> broken_;
  // The state's hash after each command that was ever appended and not lost, by revision.
  std::map<uint64_t, uint64_t> hashes_;
  std::vector<uint64_t> batch_ends_;  // revisions
  uint64_t acknowledged_ = 0;
  int snapshots_ = 0;

  // Of this life.
  bool began_ = false;  // its epoch
  core::Coordinator coordinator_;
  std::unique_ptr<server::SqliteJournal> journal_;
};

}  // namespace dp::torture
