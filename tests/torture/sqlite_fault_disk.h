#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dp::torture {

// An in-memory disk for SQLite that knows what has been synced. A crash of the machine may keep,
// drop or tear the rest. Counts the operations that change it (writes, syncs, truncations,
// deletions, file creations) and fails one on request. Everything follows from the seed. Not
// thread-safe. SQLite finds it under name() during its lifetime.
class FaultDisk {
 public:
  enum class How {
    kCrashBefore,  // the process dies; this and all later operations do not happen
    kCrashAfter,   // the operation happens, then the process dies
    kError,        // EIO; the changes of a failed sync may never reach the disk
    kFull,         // ENOSPC for a write; a sync fails with EIO
    kShort,        // ENOSPC after about half of a write's sectors
  };
  struct Fault {
    int64_t operation = 0;  // counted from 0 since the last Restart
    How how = How::kCrashBefore;
  };
  // The fate of changes that were written but not synced.
  enum class Loss {
    kNothing,  // only the process died
    kAll,
    kSome,  // the seed decides whether each write is kept, dropped or torn by sectors
  };

  explicit FaultDisk(uint64_t seed);
  ~FaultDisk();
  FaultDisk(const FaultDisk&) = delete;
  FaultDisk& operator=(const FaultDisk&) = delete;

  const char* name() const { return name_.c_str(); }

  // Begins the next run of the process, or of the machine.
  void Restart(Loss loss, std::optional<Fault> fault);
  // Makes the disk lie: syncs do nothing from now on.
  void IgnoreSyncs() { ignore_syncs_ = true; }

  // An fsync of the directory, as the program does it once the journal is open. Created and deleted
  // names are durable from then on. Returns false if it failed or the process is dead.
  bool SyncDirectory();

  // The contents of all files; and a disk with exactly these files, all synced.
  std::map<std::string, std::string> Contents() const;
  void Replace(const std::map<std::string, std::string>& contents);

  // Since the last Restart.
  int64_t operations() const { return operations_; }
  bool failed() const { return failed_; }  // the fault has happened
  // The fault was an error, which the program must notice, rather than a crash.
  bool erred() const { return failed_ && fault_->how >= How::kError; }
  // Operations tried after an error. A crashed process tries none.
  int64_t tried_after_error() const { return tried_after_error_; }

  // SQLite's calls. Each returns one of SQLite's codes.
  int Open(const char* path, int flags);
  int Write(const std::string& path, const void* data, int size, int64_t offset);
  int Truncate(const std::string& path, int64_t size);
  int Sync(const std::string& path);
  int Delete(const std::string& path, bool sync_directory);
  int Read(const std::string& path, void* data, int size, int64_t offset) const;
  bool exists(const std::string& path) const { return files_.count(path) > 0; }
  int64_t size(const std::string& path) const;

 private:
  struct Bytes {
    int64_t offset = 0;
    std::string data;
  };
  struct Size {
    int64_t size = 0;
  };
  using Change = std::variant<Bytes, Size>;
  struct File {
    std::string content;  // as a reader sees it
    std::optional<std::string> durable;
    std::vector<Change> unsynced;
  };

  // Counts an operation. SQLITE_OK means do it; with *dies, the process dies afterwards.
  int Begin(int error, bool* dies);
  static void Apply(const Change& change, std::string* content);
  void Settle(File& file, Loss loss);
  // Lets some of the changes reach the disk, and tears some.
  void ApplySome(const std::vector<Change>& changes, std::optional<std::string>* durable);
  Change Torn(const Bytes& bytes);
  uint64_t Below(uint64_t bound);

  std::string name_;
  sqlite3_vfs vfs_{};
  uint64_t random_;
  std::map<std::string, File> files_;
  std::map<std::string, File> deleted_;  // no directory sync since
  std::optional<Fault> fault_;
  int64_t operations_ = 0;
  bool failed_ = false;
  bool dead_ = false;
  int64_t tried_after_error_ = 0;
  bool ignore_syncs_ = false;
};

}  // namespace dp::torture
