#include "server/parameters/version_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checksum/crc32c.h"
#include "base/limits.h"
#include "base/status.h"

namespace dp::server {
namespace {

constexpr absl::string_view kMagic = "dpparam1";
constexpr absl::string_view kEndMagic = "dppe";
constexpr size_t kEndBytes = 16;
// A description has a line for each tensor and a number for each chunk. Larger ones are damaged.
constexpr uint64_t kDescriptionBytesMax = uint64_t{64} << 20;

absl::Status FileError(const std::filesystem::path& path, int error) {
  const std::string message =
      absl::StrCat("parameter file ", path.string(), ": ", std::generic_category().message(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error != ENOSPC && error != EDQUOT) return absl::InternalError(message);
  return absl::ResourceExhaustedError(
      absl::StrCat(message,
                   "; make room on the disk of --data-dir, or remove sets that nobody "
                   "needs (dpctl weights rm)"));
}

absl::Status Damaged(const std::filesystem::path& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("parameter file ", path.string(), ": ", what,
                                          "; remove the version, or restore the file"));
}

absl::Status ReadAll(const std::filesystem::path& path, int fd, uint64_t offset,
                     absl::Span<char> into) {
  while (!into.empty()) {
    const ssize_t got = pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, errno);
    if (got == 0) return Damaged(path, "it ends early");
    into.remove_prefix(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

// `size` bytes of `number`, the lowest first, appended.
void AppendNumber(uint64_t number, int size, std::string& out) {
  for (int i = 0; i < size; ++i) out.push_back(static_cast<char>(number >> (8 * i)));
}

uint64_t NumberIn(absl::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

std::string EndOf(absl::string_view description) {
  std::string end;
  AppendNumber(description.size(), 8, end);
  AppendNumber(ExtendCrc32c(0, description), 4, end);
  return absl::StrCat(end, kEndMagic);
}

// Whether a description fits `bytes` bytes of tensors and arrays.
bool Describes(const parameters::StoredVersion& description, uint64_t bytes) {
  const uint64_t of_tensors = description.version().bytes();
  const auto chunks = static_cast<uint64_t>(description.chunk_crc32c_size());
  return of_tensors <= bytes && description.table().array_bytes() == bytes - of_tensors &&
         chunks == (of_tensors + kParameterChunkBytes - 1) / kParameterChunkBytes;
}

}  // namespace

absl::Status SyncFolder(const std::filesystem::path& folder) {
  const FileDescriptor open_folder(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!open_folder.valid() || fsync(open_folder.get()) != 0) return FileError(folder, errno);
  return absl::OkStatus();
}

absl::StatusOr<VersionDraft> VersionDraft::Create(std::filesystem::path path) {
  FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return FileError(path, errno);
  VersionDraft draft(std::move(path), std::move(file));
  DP_RETURN_IF_ERROR(draft.Append(kMagic));
  return draft;
}

VersionDraft::VersionDraft(std::filesystem::path path, FileDescriptor file)
    : path_(std::move(path)), file_(std::move(file)) {}

VersionDraft::~VersionDraft() {
  if (file_.valid() && !path_.empty()) unlink(path_.c_str());
}

absl::Status VersionDraft::Append(absl::string_view data) {
  while (!data.empty()) {
    const ssize_t written = pwrite(file_.get(), data.data(), data.size(), static_cast<off_t>(end_));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(path_, errno);
    data.remove_prefix(static_cast<size_t>(written));
    end_ += static_cast<uint64_t>(written);
  }
  return absl::OkStatus();
}

absl::Status VersionDraft::AppendChunk(absl::string_view data, uint32_t crc) {
  const uint32_t found = ExtendCrc32c(crc_, data);
  if (found != crc) {
    return absl::DataLossError(absl::StrCat("chunk ", chunk_crcs_.size(),
                                            " was damaged on its way: its checksum is ",
                                            absl::Hex(found, absl::kZeroPad8), ", and not ",
                                            absl::Hex(crc, absl::kZeroPad8), "; push again"));
  }
  DP_RETURN_IF_ERROR(Append(data));
  crc_ = crc;
  bytes_ += data.size();
  chunk_crcs_.push_back(crc);
  return absl::OkStatus();
}

absl::Status VersionDraft::AppendArrays(absl::string_view data) {
  array_crc_ = ExtendCrc32c(array_crc_, data);
  array_bytes_ += data.size();
  return Append(data);
}

absl::Status VersionDraft::Place(parameters::StoredVersion description,
                                 const std::filesystem::path& place) {
  description.mutable_version()->set_bytes(bytes_);
  description.mutable_version()->set_crc32c(crc_);
  description.mutable_chunk_crc32c()->Assign(chunk_crcs_.begin(), chunk_crcs_.end());
  if (description.has_table()) {
    description.mutable_table()->set_array_bytes(array_bytes_);
    description.mutable_table()->set_array_crc32c(array_crc_);
  }
  const std::string text = description.SerializeAsString();
  DP_RETURN_IF_ERROR(Append(text));
  DP_RETURN_IF_ERROR(Append(EndOf(text)));
  if (fsync(file_.get()) != 0) return FileError(path_, errno);
  if (rename(path_.c_str(), place.c_str()) != 0) return FileError(place, errno);
  path_.clear();
  return SyncFolder(place.parent_path());
}

VersionReader::VersionReader(std::filesystem::path path, FileDescriptor file,
                             parameters::StoredVersion description)
    : path_(std::move(path)), file_(std::move(file)), description_(std::move(description)) {}

absl::StatusOr<VersionReader> VersionReader::Open(const std::filesystem::path& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return FileError(path, errno);
  struct stat stat;
  if (fstat(file.get(), &stat) != 0) return FileError(path, errno);
  const auto size = static_cast<uint64_t>(stat.st_size);
  if (size < kMagic.size() + kEndBytes) return Damaged(path, "it ends early");
  std::array<char, kMagic.size()> magic;
  DP_RETURN_IF_ERROR(ReadAll(path, file.get(), 0, absl::MakeSpan(magic)));
  std::array<char, kEndBytes> end;
  DP_RETURN_IF_ERROR(ReadAll(path, file.get(), size - kEndBytes, absl::MakeSpan(end)));
  const absl::string_view tail(end.data(), end.size());
  const uint64_t bytes = NumberIn(tail.substr(0, 8));
  const uint64_t room = size - kMagic.size() - kEndBytes;
  if (absl::string_view(magic.data(), magic.size()) != kMagic || tail.substr(12) != kEndMagic ||
      bytes > std::min(room, kDescriptionBytesMax)) {
    return Damaged(path, "it has no valid end");
  }
  std::string text(bytes, '\0');
  DP_RETURN_IF_ERROR(
      ReadAll(path, file.get(), size - kEndBytes - bytes, absl::MakeSpan(text.data(), bytes)));
  parameters::StoredVersion description;
  if (ExtendCrc32c(0, text) != NumberIn(tail.substr(8, 4)) || !description.ParseFromString(text) ||
      !Describes(description, room - bytes)) {
    return Damaged(path, "its description is damaged");
  }
  return VersionReader(path, std::move(file), std::move(description));
}

absl::StatusOr<std::string> VersionReader::Chunk(int index, bool check) const {
  const uint64_t begin = static_cast<uint64_t>(index) * kParameterChunkBytes;
  const uint64_t bytes = description_.version().bytes();
  if (begin >= bytes) return Damaged(path_, absl::StrCat("it has no chunk ", index));
  std::string data(std::min<uint64_t>(kParameterChunkBytes, bytes - begin), '\0');
  DP_RETURN_IF_ERROR(ReadAll(path_, file_.get(), kMagic.size() + begin, absl::MakeSpan(data)));
  if (!check) return data;
  const uint32_t before = index == 0 ? 0 : description_.chunk_crc32c(index - 1);
  if (ExtendCrc32c(before, data) == description_.chunk_crc32c(index)) return data;
  return Damaged(path_, absl::StrCat("chunk ", index, " does not match its checksum"));
}

absl::Status VersionReader::ReadArrays(absl::Span<char> into) const {
  const uint64_t begin = kMagic.size() + description_.version().bytes();
  if (into.size() != description_.table().array_bytes()) {
    return Damaged(path_, "its arrays have another size than its settings say");
  }
  DP_RETURN_IF_ERROR(ReadAll(path_, file_.get(), begin, into));
  const absl::string_view text(into.data(), into.size());
  if (ExtendCrc32c(0, text) == description_.table().array_crc32c()) return absl::OkStatus();
  return Damaged(path_, "its arrays do not match their checksum");
}

}  // namespace dp::server
