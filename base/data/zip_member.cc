#include "base/data/zip_member.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/data/inflate.h"
#include "base/status.h"

namespace dp::data {
namespace {

using Bytes = absl::Span<const uint8_t>;

constexpr uint32_t kEndMagic = 0x06054b50;
constexpr uint32_t kEnd64Magic = 0x06064b50;
constexpr uint32_t kLocator64Magic = 0x07064b50;
constexpr uint32_t kEntryMagic = 0x02014b50;
constexpr uint32_t kLocalMagic = 0x04034b50;
constexpr size_t kEndBytes = 22;
constexpr size_t kLocator64Bytes = 20;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kEntryBytes = 46;
constexpr size_t kLocalBytes = 30;
constexpr size_t kCommentBytesMax = 0xffff;
constexpr uint32_t kIn64 = 0xffffffff;  // the value stands in the entry's ZIP64 field
constexpr size_t kNamesShownMax = 20;

absl::Status DamagedZip(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("damaged ZIP archive: ", what));
}

// A little-endian number of `size` bytes; 0 behind the end.
uint64_t LittleEndian(Bytes bytes, size_t at, size_t size) {
  if (at > bytes.size() || bytes.size() - at < size) return 0;
  uint64_t number = 0;
  for (size_t i = size; i-- > 0;) number = number << 8 | bytes[at + i];
  return number;
}

struct ZipEntry {
  std::string name;
  bool encrypted = false;
  uint64_t method = 0;
  uint64_t crc = 0;
  uint64_t packed_bytes = 0;
  uint64_t bytes = 0;
  uint64_t local_at = 0;
};

struct ZipDirectory {
  uint64_t at = 0;
  uint64_t entries = 0;
};

absl::StatusOr<ZipDirectory> FindDirectory(Bytes bytes) {
  if (bytes.size() < kEndBytes) return DamagedZip("too short");
  const size_t first = bytes.size() - std::min(bytes.size(), kEndBytes + kCommentBytesMax);
  for (size_t at = bytes.size() - kEndBytes + 1; at-- > first;) {
    if (LittleEndian(bytes, at, 4) != kEndMagic) continue;
    ZipDirectory directory{LittleEndian(bytes, at + 16, 4), LittleEndian(bytes, at + 10, 2)};
    if (directory.at != kIn64 && directory.entries != 0xffff) return directory;
    if (at < kLocator64Bytes || LittleEndian(bytes, at - kLocator64Bytes, 4) != kLocator64Magic) {
      return DamagedZip("the ZIP64 locator is missing");
    }
    const uint64_t end64 = LittleEndian(bytes, at - kLocator64Bytes + 8, 8);
    if (end64 > bytes.size() || bytes.size() - end64 < kEnd64Bytes ||
        LittleEndian(bytes, end64, 4) != kEnd64Magic) {
      return DamagedZip("the ZIP64 end is missing");
    }
    return ZipDirectory{LittleEndian(bytes, end64 + 48, 8), LittleEndian(bytes, end64 + 32, 8)};
  }
  return DamagedZip("no directory at its end");
}

// Replaces sizes and offset that an entry keeps in its ZIP64 field.
void TakeLarge(Bytes extra, ZipEntry& entry) {
  while (extra.size() >= 4) {
    const uint64_t id = LittleEndian(extra, 0, 2);
    const size_t size = std::min<size_t>(LittleEndian(extra, 2, 2), extra.size() - 4);
    if (id == 1) {
      size_t at = 4;
      for (uint64_t* each : {&entry.bytes, &entry.packed_bytes, &entry.local_at}) {
        if (*each != kIn64) continue;
        *each = LittleEndian(extra.first(4 + size), at, 8);
        at += 8;
      }
    }
    extra.remove_prefix(4 + size);
  }
}

absl::StatusOr<std::vector<ZipEntry>> ReadDirectory(Bytes bytes) {
  DP_ASSIGN_OR_RETURN(const ZipDirectory directory, FindDirectory(bytes));
  std::vector<ZipEntry> entries;
  uint64_t at = directory.at;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (at > bytes.size() || bytes.size() - at < kEntryBytes ||
        LittleEndian(bytes, at, 4) != kEntryMagic) {
      return DamagedZip(absl::StrCat("entry ", i, " of its directory is missing"));
    }
    const uint64_t name = LittleEndian(bytes, at + 28, 2);
    const uint64_t extra = LittleEndian(bytes, at + 30, 2);
    const uint64_t comment = LittleEndian(bytes, at + 32, 2);
    if (bytes.size() - at - kEntryBytes < name + extra + comment) {
      return DamagedZip(absl::StrCat("entry ", i, " of its directory is cut off"));
    }
    const Bytes text = bytes.subspan(at + kEntryBytes, name);
    ZipEntry entry{.name = std::string(text.begin(), text.end()),
                   .encrypted = (LittleEndian(bytes, at + 8, 2) & 1) != 0,
                   .method = LittleEndian(bytes, at + 10, 2),
                   .crc = LittleEndian(bytes, at + 16, 4),
                   .packed_bytes = LittleEndian(bytes, at + 20, 4),
                   .bytes = LittleEndian(bytes, at + 24, 4),
                   .local_at = LittleEndian(bytes, at + 42, 4)};
    TakeLarge(bytes.subspan(at + kEntryBytes + name, extra), entry);
    entries.push_back(std::move(entry));
    at += kEntryBytes + name + extra + comment;
  }
  return entries;
}

// The bytes of a member as the archive has them.
absl::StatusOr<Bytes> PackedBytes(Bytes bytes, const ZipEntry& entry) {
  if (entry.local_at > bytes.size() || bytes.size() - entry.local_at < kLocalBytes ||
      LittleEndian(bytes, entry.local_at, 4) != kLocalMagic) {
    return DamagedZip(absl::StrCat(entry.name, " is not where the directory says"));
  }
  const uint64_t begin = entry.local_at + kLocalBytes +
                         LittleEndian(bytes, entry.local_at + 26, 2) +
                         LittleEndian(bytes, entry.local_at + 28, 2);
  if (begin > bytes.size() || bytes.size() - begin < entry.packed_bytes) {
    return DamagedZip(absl::StrCat(entry.name, " is cut off"));
  }
  return bytes.subspan(begin, entry.packed_bytes);
}

bool HasCrc(Bytes bytes, uint64_t crc) { return crc32_z(0, bytes.data(), bytes.size()) == crc; }

absl::StatusOr<FileBytes> Unpack(const FileBytes& archive, const ZipEntry& entry) {
  DP_ASSIGN_OR_RETURN(const Bytes packed, PackedBytes(archive.bytes, entry));
  if (entry.encrypted) {
    return absl::InvalidArgumentError(absl::StrCat(entry.name, " is encrypted; decrypt it"));
  }
  if (entry.method == 0) {
    if (packed.size() != entry.bytes) return DamagedZip(absl::StrCat(entry.name, " has two sizes"));
    return FileBytes{packed, archive.owner};
  }
  if (entry.method != Z_DEFLATED) {
    return absl::InvalidArgumentError(
        absl::StrCat(entry.name, " is compressed by method ", entry.method,
                     "; write it with deflate or without compression"));
  }
  DP_ASSIGN_OR_RETURN(auto all, Inflate(packed, Compression::kRaw));
  const Bytes view = *all;
  if (view.size() != entry.bytes || !HasCrc(view, entry.crc)) {
    return DamagedZip(absl::StrCat(entry.name, " does not have its checksum"));
  }
  return FileBytes{view, std::move(all)};
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ZipMemberNames(const FileBytes& archive) {
  DP_ASSIGN_OR_RETURN(const std::vector<ZipEntry> entries, ReadDirectory(archive.bytes));
  std::vector<std::string> names;
  for (const ZipEntry& entry : entries) names.push_back(entry.name);
  return names;
}

absl::StatusOr<FileBytes> ReadZipMember(const FileBytes& archive, const std::string& name) {
  DP_ASSIGN_OR_RETURN(const std::vector<ZipEntry> entries, ReadDirectory(archive.bytes));
  std::vector<std::string> names;
  for (const ZipEntry& entry : entries) {
    if (entry.name == name) return Unpack(archive, entry);
    if (names.size() < kNamesShownMax) names.push_back(entry.name);
  }
  return absl::NotFoundError(
      absl::StrCat("has no member ", name, "; there are ", absl::StrJoin(names, ", ")));
}

}  // namespace dp::data
