#include "worker/agent/sandbox/private_tmps.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/file_descriptor.h"
#include "base/program/log.h"
#include "base/status.h"
#include "worker/agent/sandbox/mounts.h"
#include "worker/agent/sandbox/remove_tree.h"

namespace dp::worker {
namespace {

namespace fs = std::filesystem;

// Directories that wait to be removed. More stay for the next daemon.
constexpr size_t kGoneMax = 8192;
// How often to ask whether the ranks of earlier daemons are gone.
constexpr absl::Duration kAskAgain = absl::Seconds(1);

// As /tmp has it: everybody may make files, and only their owner may remove them.
constexpr mode_t kTmpMode = 01777;

// For mkdtemp.
constexpr absl::string_view kRandomPart = "XXXXXX";

absl::Status NotMade(const std::string& path) {
  return absl::InternalError(absl::StrCat("private /tmp ", path, ": ", std::strerror(errno)));
}

// Whatever the umask is. Errors: Internal.
absl::Status MakeDir(const std::string& path, mode_t mode) {
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return NotMade(path);
  return chmod(path.c_str(), mode) == 0 ? absl::OkStatus() : NotMade(path);
}

// `point.path` is below `top`, which no rank has seen yet. A source that cannot be looked at gets a
// file; the mount then fails, and names it.
absl::Status MakeMountPoint(const fs::path& top, const MountPoint& point) {
  std::error_code error;
  fs::path made = top;
  for (const fs::path& name : fs::path(point.path).lexically_relative(top).parent_path()) {
    made /= name;
    if (!fs::exists(made, error)) DP_RETURN_IF_ERROR(MakeDir(made, 0755));
  }
  if (fs::is_directory(point.source, error)) return MakeDir(point.path, 0755);
  const FileDescriptor file(creat(point.path.c_str(), 0644));
  return file.valid() ? absl::OkStatus() : NotMade(point.path);
}

// Whether Make could have made the name: JOB.GENERATION.XXXXXX.
bool IsOfGeneration(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  uint64_t number = 0;
  return parts.size() == 3 && absl::SimpleAtoi(parts[0], &number) &&
         absl::SimpleAtoi(parts[1], &number) && parts[2].size() == kRandomPart.size();
}

// The directories of earlier daemons. A state directory may hold other files of its owner.
std::vector<std::string> LeftOversIn(const std::string& dir) {
  std::vector<std::string> left;
  std::error_code error;
  for (fs::directory_iterator at(dir, error), last; !error && at != last; at.increment(error)) {
    if (IsOfGeneration(at->path().filename())) left.push_back(at->path());
  }
  return left;
}

}  // namespace

PrivateTmps::PrivateTmps(const std::string& state_dir, std::function<bool()> earlier_gone,
                         const Clock& clock)
    : dir_(state_dir + kPrivateTmpsName),
      earlier_gone_(std::move(earlier_gone)),
      clock_(clock),
      left_overs_(LeftOversIn(dir_)),
      gone_(kGoneMax) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "private-tmps");
}

PrivateTmps::~PrivateTmps() {
  while (!made_.empty()) {
    const auto [job, generation] = made_.begin()->first;
    RanksGone(job, generation);
  }
  give_up_at_ = clock_.Now() + kRemovePatience;
  gone_.Close();
  thread_.join();
  rmdir(dir_.c_str());
}

absl::Status PrivateTmps::Make(JobId job, Generation generation, const RankMounts& mounts) {
  if (made_.contains({job, generation})) return absl::OkStatus();
  DP_RETURN_IF_ERROR(MakeDir(dir_, 0700));
  std::string path = NameOf(job, generation);
  if (mkdtemp(path.data()) == nullptr) return NotMade(path);
  made_[{job, generation}] = path;
  RankMounts planned = mounts;
  planned.private_tmp = path;
  const std::vector<TmpPlace> places = TmpPlaces();
  absl::Status made;
  for (const TmpPlace& place : places) made.Update(MakeDir(path + "/" + place.name, kTmpMode));
  for (const MountPoint& point : MountPointsOf(PlanMounts(planned, places))) {
    if (made.ok()) made = MakeMountPoint(path, point);
  }
  if (!made.ok()) RanksGone(job, generation);
  return made;
}

absl::Status PrivateTmps::CheckRoom() const {
  DP_RETURN_IF_ERROR(MakeDir(dir_, 0700));
  // If this daemon is killed here, the next one removes it.
  std::string path = NameOf(JobId(0), Generation(0));
  if (mkdtemp(path.data()) == nullptr) return NotMade(path);
  rmdir(path.c_str());
  return absl::OkStatus();
}

std::string PrivateTmps::NameOf(JobId job, Generation generation) const {
  return absl::StrCat(dir_, "/", job.value(), ".", generation.value(), ".", kRandomPart);
}

const std::string& PrivateTmps::PathOf(JobId job, Generation generation) const {
  const auto made = made_.find({job, generation});
  DP_CHECK(made != made_.end());
  return made->second;
}

void PrivateTmps::RanksGone(JobId job, Generation generation) {
  const auto node = made_.extract(std::pair(job, generation));
  if (node.empty()) return;
  std::string path = node.mapped();
  if (gone_.TryPush(path)) return;
  Log(Severity::kWarning, "private_tmp_left", {{"path", path}, {"waiting_max", kGoneMax}});
}

void PrivateTmps::Loop() {
  for (RemoveLeftOvers(); !gone_.closed(); RemoveLeftOvers()) {
    const absl::Duration wait = left_overs_.empty() ? absl::InfiniteDuration() : kAskAgain;
    for (const std::string& path : gone_.DrainFor(wait)) Remove(path);
  }
  for (const std::string& path : gone_.DrainFor(absl::ZeroDuration())) Remove(path);
}

void PrivateTmps::RemoveLeftOvers() {
  if (left_overs_.empty() || !earlier_gone_()) return;
  for (const std::string& path : left_overs_) {
    Log(Severity::kInfo, "private_tmp_found", {{"path", path}});
    Remove(path);
  }
  left_overs_.clear();
}

void PrivateTmps::Remove(const std::string& path) {
  const absl::Status removed = RemoveTree(path, [this] { return MayGoOn(); });
  if (removed.ok() || absl::IsNotFound(removed)) return;
  Log(Severity::kWarning, "private_tmp_left", {{"path", path}, {"reason", removed.ToString()}});
}

bool PrivateTmps::MayGoOn() const { return !gone_.closed() || clock_.Now() < give_up_at_; }

}  // namespace dp::worker
