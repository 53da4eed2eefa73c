#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/core/coordinator.h"
#include "server/journal/sqlite_journal.h"
#include "tests/torture/random_commands.h"
#include "tests/torture/sqlite_fault_disk.h"

namespace dp::torture {

// Bugs that the checks must find.
enum class Plant {
  kNone,
  kIgnoreSyncs,       // like SQLite's synchronous=OFF
  kAnswerBeforeSync,  // acknowledges before Append has made the batch durable
  kHalfBatches,       // one transaction for each command
  kGoOnAfterError,    // appends again after an error
};

// Runs of a coordinator on one disk. Each run replays the journal and checks the result against
// what earlier runs acknowledged. It then works until its batches are done or the disk fails. The
// journal, its snapshots and the machine are production code; the loop is the driver's, without its
// thread. Everything follows from the seed.
class Torture {
 public:
  Torture(uint64_t seed, Plant plant);

  FaultDisk& disk() { return disk_; }
  // One run. Inconsistencies go to broken().
  void Live(int batches);
  // Starts on files that somebody has changed, and stops. The start may be rejected; whatever it
  // wrongly accepts goes to broken().
  absl::Status TryStart();
  const std::vector<std::string>& broken() const { return broken_; }
  // Acknowledged commands and begun snapshots of all runs.
  uint64_t acknowledged() const { return acknowledged_; }
  int snapshots() const { return snapshots_; }

 private:
  // Returns OK when the work is done, or the disk's failure.
  absl::Status Work(int batches);
  absl::Status Recover();
  void CheckRecovered();
  // Applies `commands` commands and makes them durable, as one batch.
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
  // The state's digest by revision, after each command that was appended and not lost.
  std::map<uint64_t, uint64_t> digests_;
  std::vector<uint64_t> batch_ends_;  // revisions
  uint64_t acknowledged_ = 0;
  int snapshots_ = 0;

  // The current run.
  bool began_ = false;  // its epoch has begun
  core::Coordinator coordinator_;
  std::unique_ptr<server::SqliteJournal> journal_;
};

}  // namespace dp::torture
