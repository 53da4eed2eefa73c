#include "worker/agent/incarnation_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "worker/agent/state_dir.h"

namespace dp::worker {
namespace {

absl::Status Error(const std::string& path, const char* reason) {
  return absl::InternalError(
      absl::StrCat("cannot write ", path, ": ", reason, "; the next daemon waits for the lease"));
}

absl::Status WriteRecord(const std::string& path, const std::string& contents) {
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  const ssize_t written = file.valid() ? write(file.get(), contents.data(), contents.size()) : -1;
  if (written == std::ssize(contents)) return absl::OkStatus();
  return Error(path, written < 0 ? std::strerror(errno) : "the disk is full");
}

// A daemon that is killed meanwhile leaves the old file.
absl::Status Replace(const std::string& state_dir, const std::string& contents) {
  const std::string beside = state_dir + kNewIncarnationsName;
  const std::string path = state_dir + kIncarnationsName;
  absl::Status status = WriteRecord(beside, contents);
  if (status.ok() && rename(beside.c_str(), path.c_str()) != 0) {
    status = Error(path, std::strerror(errno));
  }
  if (!status.ok()) unlink(beside.c_str());
  return status;
}

}  // namespace

IncarnationRecord::IncarnationRecord(const std::string& state_dir, std::string boot_id)
    : state_dir_(state_dir), boot_id_(std::move(boot_id)) {
  if (boot_id_.empty()) return;
  std::ifstream file(state_dir_ + kIncarnationsName);
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
  return Replace(state_dir_, contents);
}

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

}  // namespace dp::worker
