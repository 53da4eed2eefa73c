#include "client/dpctl/run/line_files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace dp::ctl {
namespace {

namespace fs = std::filesystem;

// A process may have 1,024 descriptors by default.
constexpr size_t kOpenMax = 256;

std::string PathOf(const std::string& dir, const LogLine& line) {
  const bool err = line.stream == v1::LOG_STREAM_STDERR;
  return absl::StrCat(dir, "/attempt_", line.generation - 1, "/", line.rank,
                      err ? "/stderr.log" : "/stdout.log");
}

}  // namespace

absl::Status LineFiles::Add(const LogLine& line) {
  const Key key{line.generation, line.rank, line.stream};
  const std::string path = PathOf(dir_, line);
  auto file = open_.find(key);
  if (file == open_.end()) {
    if (open_.size() >= kOpenMax) open_.clear();
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);  // the stream reports this error
    errno = 0;
    file = open_.emplace(key, std::ofstream(path, std::ios::app)).first;
  }
  if (file->second.good()) errno = 0;
  file->second << line.text;
  if (line.end == LogLine::End::kLineBreak) file->second << '\n';
  file->second.flush();
  if (file->second.good()) return absl::OkStatus();
  const std::string reason = errno == 0 ? "unknown error" : std::strerror(errno);
  return absl::InternalError(absl::StrCat("log file ", path, " cannot be written: ", reason));
}

}  // namespace dp::ctl
