#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/file_descriptor.h"
#include "server/parameters/parameter_file.pb.h"

// The file of one version of a set:
//
//   "dpparam1", the tensors' data, the arrays of a table, StoredVersion, and 16 bytes: the size of
//   StoredVersion (8, little-endian), its CRC-32C (4), "dppe" (4).
//
// The description comes last, because checksums are known last. A file that was cut short has no
// valid end. Files are written once, and never change. Errors name the file. Blocking; any thread,
// one at a time for each object.

namespace dp::server {

// Makes the folder's list of files durable. Errors: NotFound there is no such folder; Internal.
absl::Status SyncFolder(const std::filesystem::path& folder);

// Writes a version beside its final place.
class VersionDraft {
 public:
  // Creates `path`, a temporary file. Errors: ResourceExhausted the disk is full; Internal.
  static absl::StatusOr<VersionDraft> Create(std::filesystem::path path);
  VersionDraft(VersionDraft&&) = default;
  VersionDraft& operator=(VersionDraft&&) = delete;
  // Removes the file, unless it was placed.
  ~VersionDraft();

  // Adds the next chunk of the tensors' data: kParameterChunkBytes, or fewer for the last one.
  // `crc` is that of all data up to its end. Errors: DataLoss the checksum does not match; as
  // Create.
  absl::Status AppendChunk(absl::string_view data, uint32_t crc);
  // Adds data of the arrays, behind all tensors. Errors: as Create.
  absl::Status AppendArrays(absl::string_view data);

  uint64_t bytes() const { return bytes_; }  // of the tensors so far
  uint32_t crc() const { return crc_; }      // of these bytes

  // Adds the description, to which this adds the checksums, syncs the file, renames it to `place`
  // and syncs the folder. The version is durable then. Errors: as Create.
  absl::Status Place(parameters::StoredVersion description, const std::filesystem::path& place);

 private:
  VersionDraft(std::filesystem::path path, FileDescriptor file);

  absl::Status Append(absl::string_view data);

  std::filesystem::path path_;  // empty: placed, or moved away
  FileDescriptor file_;
  uint64_t end_ = 0;  // of what is written
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
  uint64_t array_bytes_ = 0;
  uint32_t array_crc_ = 0;
  std::vector<uint32_t> chunk_crcs_;
};

// Reads a version that is in its place.
class VersionReader {
 public:
  // Reads the description. Errors: NotFound there is no such file; DataLoss it is damaged.
  static absl::StatusOr<VersionReader> Open(const std::filesystem::path& path);

  const parameters::StoredVersion& description() const { return description_; }
  int chunks() const { return description_.chunk_crc32c_size(); }
  // The data of a chunk; the reader checks it if `check` is set, else its receiver does.
  // Errors: DataLoss.
  absl::StatusOr<std::string> Chunk(int index, bool check) const;
  // The arrays of a table, checked. `into` has their size. Errors: DataLoss.
  absl::Status ReadArrays(absl::Span<char> into) const;

 private:
  VersionReader(std::filesystem::path path, FileDescriptor file,
                parameters::StoredVersion description);

  std::filesystem::path path_;
  FileDescriptor file_;
  parameters::StoredVersion description_;
};

}  // namespace dp::server
