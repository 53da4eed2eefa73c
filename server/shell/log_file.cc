#include "server/shell/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file_descriptor.h"
#include "base/status.h"

namespace dp::server {
namespace {

constexpr uint64_t kTailScanBytesMax = 4 << 20;

absl::Status FileError(const std::filesystem::path& path, int error) {
  const std::string message =
      absl::StrCat("log file ", path.string(), ": ", std::generic_category().message(error));
  const bool full = error == ENOSPC || error == EDQUOT;
  if (!full) return absl::InternalError(message);
  return absl::ResourceExhaustedError(
      absl::StrCat(message, "; make room on the disk of --data-dir, workers send again"));
}

FileDescriptor OpenFile(const std::filesystem::path& path, int flags) {
  return FileDescriptor(open(path.c_str(), flags | O_CLOEXEC, 0600));
}

absl::Status WriteAt(const std::filesystem::path& path, uint64_t offset, absl::string_view data,
                     int more_flags = 0) {
  const FileDescriptor file = OpenFile(path, O_WRONLY | O_CREAT | more_flags);
  if (!file.valid()) return FileError(path, errno);
  while (!data.empty()) {
    const ssize_t written = pwrite(file.get(), data.data(), data.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(path, errno);
    offset += written;
    data.remove_prefix(written);
  }
  return absl::OkStatus();
}

absl::Status SyncPath(const std::filesystem::path& path) {
  const FileDescriptor file = OpenFile(path, O_RDONLY);
  if (!file.valid()) return errno == ENOENT ? absl::OkStatus() : FileError(path, errno);
  return fsync(file.get()) == 0 ? absl::OkStatus() : FileError(path, errno);
}

std::filesystem::path CutPath(const std::filesystem::path& path) { return path.string() + ".cut"; }

}  // namespace

absl::StatusOr<LogFile> LogFile::Open(const std::filesystem::path& path) {
  LogFile file(path);
  DP_RETURN_IF_ERROR(file.Recover());
  return file;
}

absl::Status LogFile::Recover() {
  std::error_code error;
  end_ = std::filesystem::exists(path_, error) ? std::filesystem::file_size(path_, error) : 0;
  if (error) return FileError(path_, error.value());
  LogFile cut(CutPath(path_));
  if (std::filesystem::exists(cut.path_, error)) {
    cut.end_ = 32;
    DP_ASSIGN_OR_RETURN(const std::string text, cut.Read(0, 32));
    // A torn one was never acknowledged, and neither was the hole that it tells of.
    cut_ = absl::SimpleAtoi(text, &cut_begin_) && cut_begin_ < end_;
  }
  const uint64_t looked_at = std::min<uint64_t>(stored_end(), kWholeLineBytesMax);
  DP_ASSIGN_OR_RETURN(const std::string last, Read(stored_end() - looked_at, looked_at));
  const size_t newline = last.rfind('\n');
  line_begin_ = stored_end() - looked_at + (newline == last.npos ? 0 : newline + 1);
  return absl::OkStatus();
}

absl::Status LogFile::Append(absl::string_view data) {
  DP_CHECK(!cut_);
  DP_RETURN_IF_ERROR(WriteAt(path_, end_, data));
  const size_t newline = data.rfind('\n');
  if (newline != data.npos) line_begin_ = end_ + newline + 1;
  end_ += data.size();
  return absl::OkStatus();
}

absl::Status LogFile::Skip(uint64_t size) {
  if (!cut_) {
    const std::string text = absl::StrCat(end_);
    // An earlier life may have left a longer one.
    DP_RETURN_IF_ERROR(WriteAt(CutPath(path_), 0, text, O_TRUNC));
    DP_RETURN_IF_ERROR(SyncPath(CutPath(path_)));
    cut_begin_ = end_;
    cut_ = true;
  }
  return Extend(end_ + size);
}

absl::Status LogFile::Extend(uint64_t end) {
  const FileDescriptor file = OpenFile(path_, O_WRONLY | O_CREAT);
  if (!file.valid() || ftruncate(file.get(), static_cast<off_t>(end)) != 0) {
    return FileError(path_, errno);
  }
  end_ = end;
  return absl::OkStatus();
}

absl::Status LogFile::Sync() {
  DP_RETURN_IF_ERROR(SyncPath(path_));
  if (name_durable_) return absl::OkStatus();
  // The entries that lead to the file: generation, job, and the folder of all logs.
  std::filesystem::path folder = path_;
  for (int level = 0; level < 3; ++level) {
    folder = folder.parent_path();
    DP_RETURN_IF_ERROR(SyncPath(folder));
  }
  name_durable_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::string> LogFile::Read(uint64_t offset, uint64_t size) const {
  std::string data(std::min(size, stored_end() - std::min(offset, stored_end())), '\0');
  if (data.empty()) return data;
  const FileDescriptor file = OpenFile(path_, O_RDONLY);
  if (!file.valid()) return FileError(path_, errno);
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t got = pread(file.get(), data.data() + done, data.size() - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path_, errno);
    if (got == 0) break;
    done += got;
  }
  data.resize(done);
  return data;
}

absl::StatusOr<uint64_t> LogFile::TailStart(uint64_t end, int lines) const {
  end = std::min(end, stored_end());
  const uint64_t size = std::min(end, kTailScanBytesMax);
  const uint64_t begin = end - size;
  DP_ASSIGN_OR_RETURN(const std::string data, Read(begin, size));
  // A newline that is the very last byte ends the last line; it does not begin another.
  size_t at = data.size();
  if (at > 0 && data[at - 1] == '\n') --at;
  for (int line = 0; line < lines; ++line) {
    const size_t newline = at == 0 ? data.npos : data.rfind('\n', at - 1);
    if (newline == data.npos) return begin;
    at = newline;
  }
  return begin + at + 1;
}

uint64_t LogFile::readable_end() const {
  if (cut_) return stored_end();
  return end_ - line_begin_ >= kWholeLineBytesMax ? end_ : line_begin_;
}

}  // namespace dp::server
