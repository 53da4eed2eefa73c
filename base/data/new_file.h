#pragma once

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dp::data {

// Errors: AlreadyExists there is such a file.
inline absl::Status CheckIsNew(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(path, " is there; remove it, or give another name"));
}

// A file that a command makes, as a whole or not at all: written beside its place, and renamed when
// it is complete. Not thread-safe.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)), out_(unfinished(), kMode) {}
  ~NewFile() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove(unfinished(), ignored);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void Write(const void* bytes, int64_t size) { out_.write(static_cast<const char*>(bytes), size); }
  void Write(absl::string_view bytes) { Write(bytes.data(), std::ssize(bytes)); }

  // Errors: the system's, with the path, if a write or the renaming failed.
  absl::Status Finish() {
    out_.close();
    if (!out_) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
    std::error_code error;
    std::filesystem::rename(unfinished(), path_, error);
    if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot write ", path_));
    kept_ = true;
    return absl::OkStatus();
  }

 private:
  static constexpr auto kMode = std::ios::binary | std::ios::trunc;
  std::string unfinished() const { return path_ + ".unfinished"; }

  const std::string path_;
  std::ofstream out_;
  bool kept_ = false;
};

}  // namespace dp::data
