#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace dp::torture {

// The files below one folder. A crash of the machine reduces a file to its content at its last
// fsync, and a folder to the names at its last fsync. Counts the operations that change files, and
// fails one operation on request. After a crash of the process every later operation fails too.
//
// This program defines open, write, fsync, rename and similar calls itself (fault_files.cc), so the
// code under test is the installed code. At most one object at a time. Any thread may use the
// files, and therefore the calls below. Use the other methods only while no thread uses the files.
class FaultFiles {
 public:
  enum class How {
    kCrashBefore,  // the process dies; this and all later operations do not happen
    kCrashAfter,   // the operation happens, then the process dies
    // EIO. A failed sync makes nothing durable, and neither does a later sync of this run.
    kError,
    kFull,  // ENOSPC for operations that need space; a sync fails with EIO
  };
  struct Fault {
    int64_t operation = 0;  // counted from 0 since the last Restart
    How how = How::kCrashBefore;
  };

  // The content of `root` counts as durable.
  explicit FaultFiles(std::filesystem::path root);
  ~FaultFiles();
  FaultFiles(const FaultFiles&) = delete;
  FaultFiles& operator=(const FaultFiles&) = delete;

  // Begins the next run of the process. No operation fails any more, except at `fault`.
  void Restart(std::optional<Fault> fault = std::nullopt);
  // Boots the machine again: unsynced changes are lost.
  void Crash();

  int64_t operations() const { return operations_; }  // since the last Restart
  bool failed() const { return failed_; }             // the fault has happened
  // The fault was an error, which the program must notice, rather than a crash.
  bool erred() const { return failed_ && fault_->how >= How::kError; }

  // The calls, each between Begin and End, which lock out other threads. Begin returns 0, or the
  // error with which the call must fail; End is not called then.
  int Begin(bool takes_room, bool* dies);
  void End(bool dies);
  bool Covers(const std::filesystem::path& path) const;
  void Synced(const std::filesystem::path& path);
  void Removed(uint64_t inode) { identities_.erase(inode); }
  // Call this if Begin returned an error.
  void SyncFailed(const std::filesystem::path& path);

 private:
  uint64_t IdentityOf(const std::filesystem::path& path);
  void SyncTree(const std::filesystem::path& folder);
  void Build(uint64_t folder, const std::filesystem::path& to) const;

  const std::filesystem::path root_;
  std::recursive_mutex mu_;
  std::map<uint64_t, uint64_t> identities_;  // by inode; a reused inode gets a new identity
  uint64_t last_identity_ = 0;
  std::map<uint64_t, std::map<std::string, uint64_t>> names_;  // durable names, by folder
  std::map<uint64_t, std::string> contents_;                   // durable contents, by file
  std::set<uint64_t> unsyncable_;  // their sync failed; later syncs report success
  std::optional<Fault> fault_;
  int64_t operations_ = 0;
  bool failed_ = false;
  bool dead_ = false;
};

}  // namespace dp::torture
