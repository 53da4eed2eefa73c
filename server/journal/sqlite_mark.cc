#include "server/journal/sqlite_mark.h"

#include <pthread.h>
#include <sqlite3.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/status.h"
#include "server/journal/sqlite_checksum.h"

namespace dp::server {
namespace {

// A whole block of the file system, so that later writes neither grow the file nor allocate.
constexpr size_t kFileBytes = 4096;
// The record lies in one sector, which disks write whole or not at all.
constexpr size_t kRecordBytes = 512;
constexpr absl::string_view kTitle = "dp journal mark\nacknowledged ";
constexpr size_t kDigits = 20;

// The pause between two syncs, so that they take little from the journal's syncs. When a writer
// waited for a sync of the mark with each batch, it was up to five times slower on busy cores.
constexpr absl::Duration kPause = absl::Milliseconds(50);

std::string RecordOf(uint64_t sequence) {
  const std::string text = absl::StrFormat("%s%0*d\n", kTitle, kDigits, sequence);
  return absl::StrFormat("%schecksum %010d\n", text, Checksum("mark", text));
}

std::optional<uint64_t> ParseRecord(absl::string_view bytes) {
  absl::string_view number = bytes;
  uint64_t sequence = 0;
  if (!absl::ConsumePrefix(&number, kTitle) ||
      !absl::SimpleAtoi(number.substr(0, kDigits), &sequence)) {
    return std::nullopt;
  }
  const std::string record = RecordOf(sequence);
  return bytes.substr(0, record.size()) == record ? std::optional(sequence) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteMark>> SqliteMark::Open(const std::string& file,
                                                             const char* vfs, Sync sync) {
  std::unique_ptr<SqliteMark> mark(new SqliteMark(file, sync));
  mark->vfs_ = vfs;
  DP_RETURN_IF_ERROR(mark->Load());
  return mark;
}

SqliteMark::~SqliteMark() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

absl::Status SqliteMark::Load() {
  bool exists = false;
  DP_RETURN_IF_ERROR(Check(SqliteFileExists(vfs_, path_, &exists), "read"));
  if (!exists) return absl::OkStatus();
  DP_RETURN_IF_ERROR(OpenFile(/*more_flags=*/0));
  std::string bytes(kRecordBytes, '\0');
  const int read = file_->pMethods->xRead(file_.get(), bytes.data(), kRecordBytes, 0);
  if (read != SQLITE_IOERR_SHORT_READ) DP_RETURN_IF_ERROR(Check(read, "read"));
  // A crash during the first write leaves zeros, or an empty file.
  if (bytes.find_first_not_of('\0') == bytes.npos) return absl::OkStatus();
  sequence_ = ParseRecord(bytes);
  damaged_ = !sequence_.has_value();
  return absl::OkStatus();
}

// A new file of this kind syncs its directory with its first sync.
absl::Status SqliteMark::OpenFile(int more_flags) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_WAL | more_flags;
  return Check(OpenSqliteFile(vfs_, path_, flags, &file_), "opened");
}

absl::Status SqliteMark::Create(uint64_t sequence) {
  DP_CHECK(!thread_.joinable());  // the thread would sync at the same time
  if (file_ == nullptr) DP_RETURN_IF_ERROR(OpenFile(SQLITE_OPEN_CREATE));
  std::string bytes = RecordOf(sequence);
  bytes.resize(kFileBytes);
  DP_RETURN_IF_ERROR(Write(bytes));
  DP_RETURN_IF_ERROR(SyncFile());
  sequence_ = sequence;
  damaged_ = false;
  return absl::OkStatus();
}

absl::Status SqliteMark::Raise(uint64_t sequence) {
  DP_CHECK(sequence_.has_value());
  DP_RETURN_IF_ERROR(Write(RecordOf(sequence)));
  sequence_ = sequence;
  return sync_ == Sync::kAtOnce ? SyncFile() : SyncBeside();
}

absl::Status SqliteMark::Write(const std::string& bytes) {
  return Check(
      file_->pMethods->xWrite(file_.get(), bytes.data(), static_cast<int>(bytes.size()), 0),
      "written");
}

absl::Status SqliteMark::SyncFile() {
  return Check(file_->pMethods->xSync(file_.get(), SQLITE_SYNC_NORMAL), "synced");
}

absl::Status SqliteMark::SyncBeside() {
  if (!thread_.joinable()) thread_ = std::jthread([this] { Run(); });
  bool wake;
  absl::Status synced;
  {
    MutexLock lock(mu_);
    unsynced_ = true;
    wake = std::exchange(idle_, false);
    synced = synced_;
  }
  if (wake) changed_.NotifyAll();
  return synced;
}

// Syncs all that was written before it returns.
void SqliteMark::Run() {
  pthread_setname_np(pthread_self(), "dp-mark");
  while (true) {
    {
      MutexLock lock(mu_);
      idle_ = !unsynced_;
      changed_.WaitFor(mu_, absl::InfiniteDuration(),
                       [this]() DP_REQUIRES(mu_) { return unsynced_ || stopping_; });
      if (!std::exchange(unsynced_, false)) return;
    }
    const absl::Status synced = SyncFile();
    MutexLock lock(mu_);
    // The first failure stays: after a failed sync, the system reports later ones as successful.
    if (synced_.ok()) synced_ = synced;
    changed_.WaitFor(mu_, kPause, [this]() DP_REQUIRES(mu_) { return stopping_; });
  }
}

absl::Status SqliteMark::Check(int code, const char* what) const {
  if (code == SQLITE_OK) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("journal mark ", path_, " cannot be ", what, ": ",
                                          sqlite3_errstr(code),
                                          "; see to the disk, and start again"));
}

}  // namespace dp::server
