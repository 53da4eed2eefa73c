#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dp::torture {

// A disk for SQLite, in memory, which knows what has been synced: a crash of the machine may keep,
// drop or tear the rest. It counts what changes it (writes, syncs, truncations, deletions, the
// creation of files) and fails where it was told to. Everything follows from the seed. Not
// thread-safe; SQLite finds it under name() as long as it lives.
class FaultDisk {
 public:
  enum class How {
    kCrashBefore,  // the process dies: the operation and all that follow do not happen
    kCrashAfter,   // it does happen, and the process dies
    kError,        // EIO; what a sync should have written never reaches the disk
    kFull,         // ENOSPC, for a write; a sync fails with EIO
    kShort,        // ENOSPC after the sectors of half of a write
  };
  struct Fault {
    int64_t operation = 0;  // counted from 0 since the last Restart
    How how = How::kCrashBefore;
  };
  // What becomes of that which was written but not synced.
  enum class Loss {
    kNothing,  // only the process died
    kAll,
    kSome,  // each write is kept, dropped, or torn by sectors, as the seed has it
  };

  explicit FaultDisk(uint64_t seed);
  ~FaultDisk();
  FaultDisk(const FaultDisk&) = delete;
  FaultDisk& operator=(const FaultDisk&) = delete;

  const char* name() const { return name_.c_str(); }

  // The next life of the process, or of the machine.
  void Restart(Loss loss, std::optional<Fault> fault);
  // A disk that lies: syncs from now on do nothing.
  void IgnoreSyncs() { ignore_syncs_ = true; }

  // fsync of the directory, as the program does once the journal is open: names that were made or
  // deleted stay so. False: it failed, or the process is dead.
  bool SyncDirectory();

  // The content of the files, and a disk with just these, all synced.
  std::map<std::string, std::string> Contents() const;
  void Replace(const std::map<std::string, std::string>& contents);

  // Since the last Restart.
  int64_t operations() const { return operations_; }
  bool failed() const { return failed_; }  // the fault has happened
  // It was an error, which somebody had to notice; not a crash.
  bool erred() const { return failed_ && fault_->how >= How::kError; }
  // Operations that were tried after an error; after a crash there is nobody to try.
  int64_t tried_after_error() const { return tried_after_error_; }

  // SQLite's calls. Each answers one of its codes.
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

  // Counts an operation. SQLITE_OK: it is to be done; *dies: and then the process dies.
  int Begin(int error, bool* dies);
  static void Apply(const Change& change, std::string* content);
  void Settle(File& file, Loss loss);
  // What the disk has of the changes when nobody knows.
  void ApplySome(const std::vector<Change>& changes, std::optional<std::string>* durable);
  Change Torn(const Bytes& bytes);
  uint64_t Below(uint64_t bound);

  std::string name_;
  sqlite3_vfs vfs_{};
  uint64_t random_;
  std::map<std::string, File> files_;
  std::map<std::string, File> deleted_;  // and the directory was not synced since
  std::optional<Fault> fault_;
  int64_t operations_ = 0;
  bool failed_ = false;
  bool dead_ = false;
  int64_t tried_after_error_ = 0;
  bool ignore_syncs_ = false;
};

}  // namespace dp::torture
