#include "server/shell/sqlite_wal.h"

#include <sqlite3.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"

namespace dp::server {
namespace {

// https://www.sqlite.org/fileformat2.html#walformat
constexpr size_t kHeaderBytes = 32;
constexpr size_t kFrameHeaderBytes = 24;
constexpr uint32_t kMagic = 0x377f0682;  // its last bit: checksums are of big-endian words

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

struct CloseFile {
  void operator()(sqlite3_file* file) const {
    if (file->pMethods != nullptr) file->pMethods->xClose(file);
    delete[] reinterpret_cast<char*>(file);
  }
};

absl::Status NotRead(const std::string& path, int code) {
  return absl::InternalError(absl::StrCat(
      "journal ", path, " cannot be read: ", sqlite3_errstr(code), "; see to the disk"));
}

// Empty where there is no such file.
absl::StatusOr<std::string> Read(const std::string& path, const char* vfs_name) {
  sqlite3_vfs* vfs = sqlite3_vfs_find(vfs_name);
  int exists = 0;
  const int looked = vfs->xAccess(vfs, path.c_str(), SQLITE_ACCESS_EXISTS, &exists);
  if (looked != SQLITE_OK) return NotRead(path, looked);
  if (exists == 0) return std::string();
  std::unique_ptr<sqlite3_file, CloseFile> file(
      reinterpret_cast<sqlite3_file*>(new char[vfs->szOsFile]()));
  sqlite3_int64 size = 0;
  std::string bytes;
  int code =
      vfs->xOpen(vfs, path.c_str(), file.get(), SQLITE_OPEN_READONLY | SQLITE_OPEN_WAL, nullptr);
  if (code == SQLITE_OK) code = file->pMethods->xFileSize(file.get(), &size);
  bytes.resize(size);
  if (code == SQLITE_OK && size > 0) {
    code = file->pMethods->xRead(file.get(), bytes.data(), static_cast<int>(size), 0);
  }
  if (code == SQLITE_OK) return bytes;
  return NotRead(path, code);
}

absl::Status Damaged(const std::string& path, const std::string& what) {
  return absl::DataLossError(
      absl::StrCat("journal ", path, " cannot be trusted: ", what,
                   "; restore the data directory from a copy, or start with another --data-dir"));
}

bool OnlyZeros(absl::string_view bytes) {
  return bytes.find_first_not_of('\0') == absl::string_view::npos;
}

// The frames of a WAL whose header is in order.
class Frames {
 public:
  Frames(absl::string_view wal, WalChecksum checksum)
      : wal_(wal), frame_bytes_(kFrameHeaderBytes + BigEndian(wal, 8)), checksum_(checksum) {}

  size_t size() const { return (wal_.size() - kHeaderBytes) / frame_bytes_; }

  // The first that is not as it was written, or size().
  size_t FirstBad() {
    for (size_t i = 0; i < size(); ++i) {
      const absl::string_view frame = At(i);
      checksum_.Add(frame.substr(0, 8));
      checksum_.Add(frame.substr(kFrameHeaderBytes));
      if (!IsOfThisWal(i) || !checksum_.Matches(frame, 16)) return i;
    }
    return size();
  }

  // Not left over from before the WAL was begun anew.
  bool IsOfThisWal(size_t i) const { return At(i).substr(8, 8) == wal_.substr(16, 8); }
  bool EndsTransaction(size_t i) const { return BigEndian(At(i), 4) != 0; }

 private:
  absl::string_view At(size_t i) const {
    return wal_.substr(kHeaderBytes + i * frame_bytes_, frame_bytes_);
  }

  const absl::string_view wal_;
  const size_t frame_bytes_;
  WalChecksum checksum_;
};

}  // namespace

absl::Status CheckWal(const std::string& file, const char* vfs) {
  const std::string path = file + "-wal";
  DP_ASSIGN_OR_RETURN(const std::string wal, Read(path, vfs));
  const absl::string_view header = absl::string_view(wal).substr(0, kHeaderBytes);
  // A new one, whose header had not reached the disk. It is synced before the first frame.
  if (wal.size() < kHeaderBytes || OnlyZeros(wal)) return absl::OkStatus();
  if (OnlyZeros(header)) return Damaged(path, "its header is gone, and what it was for follows");
  WalChecksum checksum((BigEndian(header, 0) & 1) != 0);
  checksum.Add(header.substr(0, 24));
  if ((BigEndian(header, 0) & ~1u) != kMagic || !checksum.Matches(header, 24)) {
    return Damaged(path, "its header does not match its checksum");
  }
  Frames frames(wal, checksum);
  const size_t bad = frames.FirstBad();
  bool ended = false;  // the transaction with the bad frame
  for (size_t i = bad; i < frames.size(); ++i) {
    if (!frames.IsOfThisWal(i)) continue;
    if (ended) {
      return Damaged(path, absl::StrCat("frame ", bad + 1, " of ", frames.size(),
                                        " does not match its checksum, and what was written after "
                                        "it had been synced follows"));
    }
    ended = frames.EndsTransaction(i);
  }
  return absl::OkStatus();
}

}  // namespace dp::server
