#include "tests/torture/sqlite_fault_disk.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/overloaded.h"
#include "base/random.h"

namespace dp::torture {
namespace {

constexpr int64_t kSector = 512;

// An open file in SQLite's terms.
struct OpenFile {
  sqlite3_file base;
  FaultDisk* disk;
  std::string* path;
};

OpenFile& Of(sqlite3_file* file) { return *reinterpret_cast<OpenFile*>(file); }

int Close(sqlite3_file* file) {
  delete Of(file).path;
  return SQLITE_OK;
}
int Read(sqlite3_file* file, void* data, int size, sqlite3_int64 offset) {
  return Of(file).disk->Read(*Of(file).path, data, size, offset);
}
int Write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  return Of(file).disk->Write(*Of(file).path, data, size, offset);
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  return Of(file).disk->Truncate(*Of(file).path, size);
}
int Sync(sqlite3_file* file, int) { return Of(file).disk->Sync(*Of(file).path); }
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  *size = Of(file).disk->size(*Of(file).path);
  return SQLITE_OK;
}
int Lock(sqlite3_file*, int) { return SQLITE_OK; }
int CheckReservedLock(sqlite3_file*, int* reserved) {
  *reserved = 0;
  return SQLITE_OK;
}
int FileControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int SectorSize(sqlite3_file*) { return 4096; }
// SQLite assumes this for every disk on Linux: a torn write harms only bytes that it was to write.
int Characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

const sqlite3_io_methods kMethods = {
    .iVersion = 1,
    .xClose = Close,
    .xRead = Read,
    .xWrite = Write,
    .xTruncate = Truncate,
    .xSync = Sync,
    .xFileSize = FileSize,
    .xLock = Lock,
    .xUnlock = Lock,
    .xCheckReservedLock = CheckReservedLock,
    .xFileControl = FileControl,
    .xSectorSize = SectorSize,
    .xDeviceCharacteristics = Characteristics,
};

FaultDisk& DiskOf(sqlite3_vfs* vfs) { return *static_cast<FaultDisk*>(vfs->pAppData); }

int OpenOn(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  DP_CHECK(path != nullptr);  // a journal needs no temporary files
  file->pMethods = nullptr;
  const int opened = DiskOf(vfs).Open(path, flags);
  if (opened != SQLITE_OK) return opened;
  Of(file) = {{&kMethods}, &DiskOf(vfs), new std::string(path)};
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}
int DeleteOn(sqlite3_vfs* vfs, const char* path, int sync_directory) {
  return DiskOf(vfs).Delete(path, sync_directory != 0);
}
int AccessOn(sqlite3_vfs* vfs, const char* path, int, int* exists) {
  *exists = DiskOf(vfs).exists(path) ? 1 : 0;
  return SQLITE_OK;
}
int FullPathname(sqlite3_vfs*, const char* path, int size, char* full) {
  std::strncpy(full, path, size);
  return SQLITE_OK;
}

// Each disk has its own name, because a test may use several.
int last_disk = 0;

}  // namespace

FaultDisk::FaultDisk(uint64_t seed)
    : name_(absl::StrCat("dp-faults-", ++last_disk)), random_(seed) {
  const sqlite3_vfs* system = sqlite3_vfs_find(nullptr);
  vfs_ = *system;
  vfs_.iVersion = 1;
  vfs_.szOsFile = sizeof(OpenFile);
  vfs_.pNext = nullptr;
  vfs_.zName = name_.c_str();
  vfs_.pAppData = this;
  vfs_.xOpen = OpenOn;
  vfs_.xDelete = DeleteOn;
  vfs_.xAccess = AccessOn;
  vfs_.xFullPathname = FullPathname;
  DP_CHECK(sqlite3_vfs_register(&vfs_, /*makeDflt=*/0) == SQLITE_OK);
}

FaultDisk::~FaultDisk() { sqlite3_vfs_unregister(&vfs_); }

void FaultDisk::Restart(Loss loss, std::optional<Fault> fault) {
  // A deletion that no sync has made durable may be undone.
  for (auto& [path, file] : deleted_) {
    if (loss == Loss::kAll || (loss == Loss::kSome && Below(2) == 0)) files_.emplace(path, file);
  }
  deleted_.clear();
  for (auto it = files_.begin(); it != files_.end();) {
    Settle(it->second, loss);
    const bool is_there = loss == Loss::kNothing || it->second.durable.has_value();
    it = is_there ? std::next(it) : files_.erase(it);
  }
  fault_ = fault;
  operations_ = tried_after_error_ = 0;
  failed_ = dead_ = false;
}

void FaultDisk::Settle(File& file, Loss loss) {
  if (loss == Loss::kNothing) return;
  if (loss == Loss::kSome) ApplySome(file.unsynced, &file.durable);
  file.content = file.durable.value_or("");
  file.unsynced.clear();
}

void FaultDisk::ApplySome(const std::vector<Change>& changes, std::optional<std::string>* durable) {
  // The name of a new file may have reached the disk before its first sync.
  if (!durable->has_value() && Below(2) == 0) *durable = "";
  for (const Change& change : changes) {
    if (!durable->has_value() || Below(3) == 0) continue;
    const auto* bytes = std::get_if<Bytes>(&change);
    Apply(bytes != nullptr && Below(2) == 0 ? Torn(*bytes) : change, &**durable);
  }
}

// A run of sectors of the write. The other sectors keep their old content.
FaultDisk::Change FaultDisk::Torn(const Bytes& bytes) {
  const int64_t end = bytes.offset + static_cast<int64_t>(bytes.data.size());
  const int64_t sectors = end / kSector - bytes.offset / kSector + 1;
  const int64_t first = bytes.offset / kSector + static_cast<int64_t>(Below(sectors));
  const int64_t last = first + static_cast<int64_t>(Below(sectors));
  const int64_t from = std::clamp(first * kSector, bytes.offset, end);
  const int64_t to = std::clamp((last + 1) * kSector, from, end);
  return Bytes{from, bytes.data.substr(from - bytes.offset, to - from)};
}

void FaultDisk::Apply(const Change& change, std::string* content) {
  std::visit(Overloaded{[&](const Bytes& bytes) {
                          const size_t end = bytes.offset + bytes.data.size();
                          if (content->size() < end) content->resize(end);
                          content->replace(bytes.offset, bytes.data.size(), bytes.data);
                        },
                        [&](const Size& size) { content->resize(size.size); }},
             change);
}

int FaultDisk::Begin(int error, bool* dies) {
  *dies = false;
  if (dead_) return error;
  if (failed_) ++tried_after_error_;
  const int64_t operation = operations_++;
  if (!fault_.has_value() || fault_->operation != operation) return SQLITE_OK;
  failed_ = true;
  *dies = fault_->how == How::kCrashAfter;
  if (*dies) return SQLITE_OK;
  dead_ = fault_->how == How::kCrashBefore;
  return error;
}

int FaultDisk::Open(const char* path, int flags) {
  if (dead_) return SQLITE_CANTOPEN;
  if (exists(path)) return SQLITE_OK;
  if ((flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
  bool dies = false;
  if (const int code = Begin(SQLITE_CANTOPEN, &dies); code != SQLITE_OK) return code;
  files_[path] = {};
  dead_ = dies;
  return SQLITE_OK;
}

int FaultDisk::Write(const std::string& path, const void* data, int size, int64_t offset) {
  const bool full = fault_.has_value() && fault_->how >= How::kFull;
  bool dies = false;
  const int code = Begin(full ? SQLITE_FULL : SQLITE_IOERR_WRITE, &dies);
  const bool is_short = code != SQLITE_OK && !dead_ && fault_->how == How::kShort &&
                        fault_->operation == operations_ - 1;
  if (code != SQLITE_OK && !is_short) return code;
  File& file = files_.at(path);
  // A short write ends between two sectors.
  const int64_t half = (offset + size / 2) / kSector * kSector - offset;
  const std::string bytes(static_cast<const char*>(data),
                          is_short ? std::max<int64_t>(half, 0) : size);
  file.unsynced.push_back(Bytes{offset, bytes});
  Apply(file.unsynced.back(), &file.content);
  dead_ = dies;
  return code;
}

int FaultDisk::Truncate(const std::string& path, int64_t size) {
  bool dies = false;
  if (const int code = Begin(SQLITE_IOERR_TRUNCATE, &dies); code != SQLITE_OK) return code;
  File& file = files_.at(path);
  file.unsynced.push_back(Size{size});
  Apply(file.unsynced.back(), &file.content);
  dead_ = dies;
  return SQLITE_OK;
}

int FaultDisk::Sync(const std::string& path) {
  bool dies = false;
  const int code = Begin(SQLITE_IOERR_FSYNC, &dies);
  if (dead_) return code;
  File& file = files_.at(path);
  if (code != SQLITE_OK) {
    // The kernel now treats the changes as written, so later syncs skip them.
    ApplySome(std::exchange(file.unsynced, {}), &file.durable);
    return code;
  }
  dead_ = dies;
  if (ignore_syncs_) return SQLITE_OK;
  if (!file.durable.has_value()) file.durable = "";
  for (const Change& change : file.unsynced) Apply(change, &*file.durable);
  file.unsynced.clear();
  return SQLITE_OK;
}

bool FaultDisk::SyncDirectory() {
  bool dies = false;
  if (Begin(SQLITE_IOERR_DIR_FSYNC, &dies) != SQLITE_OK) return false;
  dead_ = dies;
  if (ignore_syncs_) return true;
  deleted_.clear();
  for (auto& [path, file] : files_) {
    if (!file.durable.has_value()) file.durable = "";
  }
  return true;
}

std::map<std::string, std::string> FaultDisk::Contents() const {
  std::map<std::string, std::string> contents;
  for (const auto& [path, file] : files_) contents[path] = file.content;
  return contents;
}

void FaultDisk::Replace(const std::map<std::string, std::string>& contents) {
  files_.clear();
  deleted_.clear();
  for (const auto& [path, content] : contents) files_[path] = {content, content, {}};
}

int FaultDisk::Delete(const std::string& path, bool sync_directory) {
  if (!exists(path)) return SQLITE_IOERR_DELETE_NOENT;
  bool dies = false;
  if (const int code = Begin(SQLITE_IOERR_DELETE, &dies); code != SQLITE_OK) return code;
  if (!sync_directory || ignore_syncs_) deleted_[path] = std::move(files_.at(path));
  files_.erase(path);
  dead_ = dies;
  return SQLITE_OK;
}

int FaultDisk::Read(const std::string& path, void* data, int size, int64_t offset) const {
  if (dead_) return SQLITE_IOERR_READ;
  const std::string& content = files_.at(path).content;
  const int64_t there = std::clamp<int64_t>(static_cast<int64_t>(content.size()) - offset, 0, size);
  if (there > 0) std::memcpy(data, content.data() + offset, there);
  if (there == size) return SQLITE_OK;
  std::memset(static_cast<char*>(data) + there, 0, size - there);
  return SQLITE_IOERR_SHORT_READ;
}

int64_t FaultDisk::size(const std::string& path) const {
  return static_cast<int64_t>(files_.at(path).content.size());
}

uint64_t FaultDisk::Below(uint64_t bound) { return NextRandom(random_) % bound; }

}  // namespace dp::torture
