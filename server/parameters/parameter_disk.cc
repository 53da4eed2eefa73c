#include "server/parameters/parameter_disk.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace dp::server {

ParameterDisk::Room::~Room() {
  if (disk_ == nullptr) return;
  disk_->Written(unwritten_);
  disk_->Free(bytes_);
}

void ParameterDisk::Room::Wrote(uint64_t bytes) {
  const uint64_t counted = std::min(bytes, unwritten_);
  unwritten_ -= counted;
  disk_->Written(counted);
}

void ParameterDisk::Room::Keep() { std::exchange(disk_, nullptr)->Written(unwritten_); }

absl::StatusOr<ParameterDisk::Room> ParameterDisk::Take(const std::string& what, uint64_t bytes) {
  const uint64_t written_before = written_ever();
  const uint64_t on_disk = available_ == nullptr ? kNone : available_();
  MutexLock lock(mu_);
  const uint64_t allowed = bytes_max_ - std::min(bytes_max_, bytes_);
  if (bytes > allowed) {
    return absl::ResourceExhaustedError(absl::StrCat(
        what, ": no room for ", bytes, " bytes of parameters: ", allowed,
        " bytes are free of --parameters-bytes-max; remove sets that nobody needs (dpctl weights "
        "rm), or raise the flag of dp-coordinator"));
  }
  // The disk's answer may or may not have bytes that were written since it was asked.
  const uint64_t missing = reserve_ + unwritten_ + (written_ever_ - written_before);
  const uint64_t spare = on_disk - std::min(on_disk, missing);
  if (bytes > spare) {
    return absl::ResourceExhaustedError(absl::StrCat(
        what, ": no room for ", bytes, " bytes of parameters: the disk of --data-dir has ", spare,
        " bytes beside its reserve (--log-disk-reserve) and the ", unwritten_,
        " bytes that other pushes will write; make room there"));
  }
  bytes_ += bytes;
  unwritten_ += bytes;
  return Room(*this, bytes);
}

void ParameterDisk::Add(uint64_t bytes) {
  MutexLock lock(mu_);
  bytes_ += bytes;
}

void ParameterDisk::Free(uint64_t bytes) {
  MutexLock lock(mu_);
  bytes_ -= bytes;
}

uint64_t ParameterDisk::bytes() const {
  MutexLock lock(mu_);
  return bytes_;
}

uint64_t ParameterDisk::written_ever() const {
  MutexLock lock(mu_);
  return written_ever_;
}

void ParameterDisk::Written(uint64_t bytes) {
  MutexLock lock(mu_);
  unwritten_ -= bytes;
  written_ever_ += bytes;
}

}  // namespace dp::server
