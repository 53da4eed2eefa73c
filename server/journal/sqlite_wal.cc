#include "server/journal/sqlite_wal.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/program/log.h"
#include "base/status.h"
#include "server/journal/sqlite_file.h"

namespace dp::server {
namespace {

// https://www.sqlite.org/fileformat2.html#walformat
constexpr int64_t kHeaderBytes = 32;
constexpr int64_t kFrameHeaderBytes = 24;
constexpr uint32_t kMagic = 0x377f0682;  // last bit set: checksums of big-endian words

constexpr int64_t kPieceBytes = int64_t{1} << 20;  // read at a time

uint32_t BigEndian(absl::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// SQLite's running checksum.
class WalChecksum {
 public:
  explicit WalChecksum(bool big_endian) : big_endian_(big_endian) {}

  void Add(absl::string_view bytes) {
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      first_ += Word(bytes, at) + second_;
      second_ += Word(bytes, at + 4) + first_;
    }
  }
  bool Matches(absl::string_view bytes, size_t at) const {
    return BigEndian(bytes, at) == first_ && BigEndian(bytes, at + 4) == second_;
  }

 private:
  uint32_t Word(absl::string_view bytes, size_t at) const {
    const uint32_t value = BigEndian(bytes, at);
    return big_endian_ ? value : __builtin_bswap32(value);
  }

  const bool big_endian_;
  uint32_t first_ = 0;
  uint32_t second_ = 0;
};

// A WAL on its disk. The WAL may be larger than the memory, so only the requested bytes are read.
class WalFile {
 public:
  // `path` must outlive the file.
  static absl::StatusOr<WalFile> Open(const std::string& path, const char* vfs) {
    WalFile wal(path);
    bool exists = false;
    DP_RETURN_IF_ERROR(wal.Said(SqliteFileExists(vfs, path, &exists)));
    if (!exists) return wal;
    constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_WAL;
    DP_RETURN_IF_ERROR(wal.Said(OpenSqliteFile(vfs, path, kFlags, &wal.file_)));
    DP_RETURN_IF_ERROR(wal.Said(wal.file_->pMethods->xFileSize(wal.file_.get(), &wal.size_)));
    return wal;
  }

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // 0 if there is no file
  // Precondition: the file has these bytes. The result is valid until the next call.
  absl::StatusOr<absl::string_view> Read(int64_t at, int64_t bytes) {
    bytes_.resize(static_cast<size_t>(bytes));
    DP_RETURN_IF_ERROR(
        Said(file_->pMethods->xRead(file_.get(), bytes_.data(), static_cast<int>(bytes), at)));
    return bytes_;
  }

 private:
  explicit WalFile(const std::string& path) : path_(path) {}

  absl::Status Said(int code) const {
    if (code == SQLITE_OK) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(
        "journal ", path_, " cannot be read: ", sqlite3_errstr(code), "; see to the disk"));
  }

  const std::string& path_;
  SqliteFile file_;
  sqlite3_int64 size_ = 0;
  std::string bytes_;
};

absl::Status Damaged(const WalFile& wal, const std::string& what) {
  return absl::DataLossError(
      absl::StrCat("journal ", wal.path(), " cannot be trusted: ", what,
                   "; restore the whole data directory from a copy, or start with "
                   "--accept-data-loss, which goes on with what is before the damage"));
}

bool OnlyZeros(absl::string_view bytes) {
  return bytes.find_first_not_of('\0') == absl::string_view::npos;
}

absl::StatusOr<bool> OnlyZeros(WalFile& wal) {
  for (int64_t at = 0; at < wal.size(); at += kPieceBytes) {
    DP_ASSIGN_OR_RETURN(const absl::string_view piece,
                        wal.Read(at, std::min(kPieceBytes, wal.size() - at)));
    if (!OnlyZeros(piece)) return false;
  }
  return true;
}

// The frames of a WAL with a valid header.
class Frames {
 public:
  Frames(WalFile& wal, std::string header, WalChecksum checksum)
      : wal_(wal),
        header_(std::move(header)),
        frame_bytes_(kFrameHeaderBytes + BigEndian(header_, 8)),
        checksum_(checksum) {}

  int64_t size() const { return (wal_.size() - kHeaderBytes) / frame_bytes_; }

  // Frames of this WAL behind the last whole transaction. Call after FirstBad.
  absl::StatusOr<int64_t> CountTorn() {
    int64_t torn = 0;
    for (int64_t i = whole_; i < size(); ++i) {
      DP_ASSIGN_OR_RETURN(const absl::string_view header, Read(i, kFrameHeaderBytes));
      torn += IsOfThisWal(header) ? 1 : 0;
    }
    return torn;
  }

  // The first frame that is not as it was written, or size().
  absl::StatusOr<int64_t> FirstBad() {
    for (int64_t i = 0; i < size(); ++i) {
      DP_ASSIGN_OR_RETURN(const absl::string_view frame, Read(i, frame_bytes_));
      checksum_.Add(frame.substr(0, 8));
      checksum_.Add(frame.substr(kFrameHeaderBytes));
      if (!IsOfThisWal(frame) || !checksum_.Matches(frame, 16)) return i;
      if (BigEndian(frame, 4) != 0) whole_ = i + 1;
    }
    return size();
  }

  // Whether frames of this WAL follow the end of the transaction of frame `bad`.
  absl::StatusOr<bool> MoreFollows(int64_t bad) {
    bool ended = false;
    for (int64_t i = bad; i < size(); ++i) {
      DP_ASSIGN_OR_RETURN(const absl::string_view header, Read(i, kFrameHeaderBytes));
      if (!IsOfThisWal(header)) continue;
      if (ended) return true;
      ended = BigEndian(header, 4) != 0;
    }
    return false;
  }

 private:
  absl::StatusOr<absl::string_view> Read(int64_t frame, int64_t bytes) {
    return wal_.Read(kHeaderBytes + frame * frame_bytes_, bytes);
  }
  // False for a frame from before the WAL began anew.
  bool IsOfThisWal(absl::string_view frame) const {
    return frame.substr(8, 8) == absl::string_view(header_).substr(16, 8);
  }

  WalFile& wal_;
  const std::string header_;
  const int64_t frame_bytes_;
  WalChecksum checksum_;
  int64_t whole_ = 0;  // frames of whole transactions
};

// Logs the torn frames, which were acknowledged to nobody and which SQLite drops.
absl::Status TellTorn(const WalFile& wal, Frames& frames) {
  DP_ASSIGN_OR_RETURN(const int64_t torn, frames.CountTorn());
  if (torn == 0) return absl::OkStatus();
  Log(Severity::kWarning, "journal_torn",
      {{"file", wal.path()},
       {"pages_dropped", torn},
       {"reason", "the end came while they were written; nobody had been told of them"}});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> CheckWal(const std::string& file, const char* vfs) {
  const std::string path = file + "-wal";
  DP_ASSIGN_OR_RETURN(WalFile wal, WalFile::Open(path, vfs));
  // A new WAL whose header has not reached the disk; the header is synced before the first frame.
  if (wal.size() < kHeaderBytes) return false;
  DP_ASSIGN_OR_RETURN(const absl::string_view first, wal.Read(0, kHeaderBytes));
  const std::string header(first);
  if (OnlyZeros(header)) {
    DP_ASSIGN_OR_RETURN(const bool is_new, OnlyZeros(wal));
    if (is_new) return false;
    return Damaged(wal, "its header is gone, and what it was for follows");
  }
  WalChecksum checksum((BigEndian(header, 0) & 1) != 0);
  checksum.Add(absl::string_view(header).substr(0, 24));
  if ((BigEndian(header, 0) & ~1u) != kMagic || !checksum.Matches(header, 24)) {
    return Damaged(wal, "its header does not match its checksum");
  }
  Frames frames(wal, header, checksum);
  DP_ASSIGN_OR_RETURN(const int64_t bad, frames.FirstBad());
  DP_ASSIGN_OR_RETURN(const bool damaged, frames.MoreFollows(bad));
  if (damaged) {
    return Damaged(wal, absl::StrCat("frame ", bad + 1, " of ", frames.size(),
                                     " does not match its checksum, and what was written after it "
                                     "had been synced follows"));
  }
  DP_RETURN_IF_ERROR(TellTorn(wal, frames));
  return true;
}

}  // namespace dp::server
