#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/journal/sqlite_file.h"

namespace dp::server {

// The mark of a journal: a file beside it with the sequence of the last acknowledged command. A
// start compares both, and notices missing commands (docs/journal.md). The mark never runs ahead of
// the journal: the caller raises it after the commit and before the answer.
//
// Raise writes in place, and leaves the sync to a thread that nobody waits for. The mark is
// therefore exact after any end of the process. After a power failure it may lack what was
// acknowledged in about the last twentieth of a second. Not thread-safe, except for that thread;
// owned by the journal.
//
// Errors: Internal names the file. After an error the mark must not be used again.
class SqliteMark {
 public:
  // How Raise syncs.
  enum class Sync {
    kBeside,  // by a thread, soon after
    kAtOnce,  // before Raise returns: for tests whose disk sees one order of operations
  };

  // Reads the mark of the journal `file`; `vfs` as for SQLite. Creates nothing.
  static absl::StatusOr<std::unique_ptr<SqliteMark>> Open(const std::string& file, const char* vfs,
                                                          Sync sync);
  ~SqliteMark();
  SqliteMark(const SqliteMark&) = delete;
  SqliteMark& operator=(const SqliteMark&) = delete;

  // nullopt: there is no mark, or its first write never reached the disk.
  std::optional<uint64_t> sequence() const { return sequence_; }
  // The mark exists, but cannot be read as one.
  bool damaged() const { return damaged_; }
  const std::string& path() const { return path_; }

  // Writes a whole new mark, and syncs it with its name. May also set a mark back.
  absl::Status Create(uint64_t sequence);
  // Precondition: sequence().has_value(). Errors also: an earlier sync has failed.
  absl::Status Raise(uint64_t sequence);

 private:
  SqliteMark(const std::string& file, Sync sync) : path_(file + "-mark"), sync_(sync) {}

  absl::Status Load();
  absl::Status OpenFile(int more_flags);
  absl::Status Write(const std::string& bytes);
  absl::Status SyncFile();
  // Makes the thread sync what was written. Errors: those of the last sync.
  absl::Status SyncBeside() DP_EXCLUDES(mu_);
  void Run() DP_EXCLUDES(mu_);
  absl::Status Check(int code, const char* what) const;

  const std::string path_;
  const Sync sync_;
  const char* vfs_ = nullptr;
  SqliteFile file_;
  std::optional<uint64_t> sequence_;
  bool damaged_ = false;

  Mutex mu_;
  CondVar changed_;
  bool unsynced_ DP_GUARDED_BY(mu_) = false;
  bool idle_ DP_GUARDED_BY(mu_) = false;  // the thread waits for something to sync
  bool stopping_ DP_GUARDED_BY(mu_) = false;
  absl::Status synced_ DP_GUARDED_BY(mu_);
  std::jthread thread_;  // starts once there is something to sync
};

}  // namespace dp::server
