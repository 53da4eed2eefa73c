#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace dp::torture {

// The files below one folder, which a crash of the machine reduces to what had been synced: a
// file to its content at its last fsync, a folder to the names at its last fsync. Counts what
// changes them, and fails one operation when told to; after a crash every later one fails, too.
//
// It sees the calls because this program defines open, write, fsync, rename and their like itself
// (fault_files.cc): the code under test is the one that is installed. Only one at a time. Any
// thread may use the files, and so the calls below; the other methods are for when none does.
class FaultFiles {
 public:
  enum class How {
    kCrashBefore,  // the process dies: the operation and all that follow do not happen
    kCrashAfter,   // it does happen, and the process dies
    // EIO; a sync that fails makes nothing durable, and neither does a later one of this run.
    kError,
    kFull,  // ENOSPC for what takes room; a sync fails with EIO
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

  // The next run of the process; no operation fails any more, unless `fault` comes.
  void Restart(std::optional<Fault> fault = std::nullopt);
  // The next boot of the machine: what was not synced is gone.
  void Crash();

  int64_t operations() const { return operations_; }  // since the last Restart
  bool failed() const { return failed_; }             // the fault has happened
  // It was an error, which somebody had to notice; not a crash.
  bool erred() const { return failed_ && fault_->how >= How::kError; }

  // The calls, each between Begin and End, which lock out other threads. Begin answers 0, or the
  // error that the call must fail with; then there is no End.
  int Begin(bool takes_room, bool* dies);
  void End(bool dies);
  bool Covers(const std::filesystem::path& path) const;
  void Synced(const std::filesystem::path& path);
  void Removed(uint64_t inode) { identities_.erase(inode); }
  // After a Begin that answered with an error.
  void SyncFailed(const std::filesystem::path& path);

 private:
  uint64_t IdentityOf(const std::filesystem::path& path);
  void SyncTree(const std::filesystem::path& folder);
  void Build(uint64_t folder, const std::filesystem::path& to) const;

  const std::filesystem::path root_;
  std::recursive_mutex mu_;
  std::map<uint64_t, uint64_t> identities_;  // of inodes, which come again under another identity
  uint64_t last_identity_ = 0;
  std::map<uint64_t, std::map<std::string, uint64_t>> names_;  // durable ones, by folder
  std::map<uint64_t, std::string> contents_;                   // durable ones, by file
  std::set<uint64_t> unsyncable_;  // a sync failed; a later one says that all is well
  std::optional<Fault> fault_;
  int64_t operations_ = 0;
  bool failed_ = false;
  bool dead_ = false;
};

}  // namespace dp::torture
