#include "worker/agent/incarnation_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "worker/agent/state_dir.h"

namespace dp::worker {
namespace {

absl::Status Error(const std::string& path) {
  return absl::InternalError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

// A daemon that is killed meanwhile leaves the file as it was.
absl::Status Replace(const std::string& path, const std::string& contents) {
  const std::string beside = path + ".new";
  FileDescriptor file(
      open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return Error(beside);
  const ssize_t written = write(file.get(), contents.data(), contents.size());
  if (written != static_cast<ssize_t>(contents.size())) return Error(beside);
  return rename(beside.c_str(), path.c_str()) == 0 ? absl::OkStatus() : Error(path);
}

}  // namespace

IncarnationRecord::IncarnationRecord(const std::string& state_dir, std::string boot_id)
    : path_(state_dir + kIncarnationsName), boot_id_(std::move(boot_id)) {
  if (boot_id_.empty()) return;
  std::ifstream file(path_);
  std::string boot;
  std::string number;
  while (recorded_.size() < kKept && file >> boot >> number) {
    uint64_t incarnation = 0;
    if (boot == boot_id_ && absl::SimpleAtoi(number, &incarnation)) {
      recorded_.emplace_back(incarnation);
    }
  }
}

absl::Status IncarnationRecord::Add(Incarnation incarnation) {
  if (boot_id_.empty()) return absl::OkStatus();
  if (recorded_.size() == kKept) recorded_.erase(recorded_.begin());
  recorded_.push_back(incarnation);
  std::string contents;
  for (const Incarnation each : recorded_) {
    absl::StrAppend(&contents, boot_id_, " ", each.value(), "\n");
  }
  return Replace(path_, contents);
}

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

}  // namespace dp::worker
