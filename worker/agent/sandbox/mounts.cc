#include "worker/agent/sandbox/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "base/file_descriptor.h"

namespace dp::worker {
namespace {

MountFault Fault(std::string step) { return {errno, std::move(step)}; }

// Empty if there is no such path.
std::string RealPath(const char* path) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(path, nullptr), free);
  return real == nullptr ? "" : real.get();
}

bool WriteTo(const char* path, const std::string& text) {
  const FileDescriptor file(open(path, O_WRONLY | O_CLOEXEC));
  return file.valid() &&
         write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// `id` stays the same number within.
std::string MapOf(unsigned id) { return std::to_string(id) + " " + std::to_string(id) + " 1"; }

std::optional<MountFault> EnterUserNamespace() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return Fault("make a user namespace");
  // A kernel before 3.19 has no such file, and needs no such line.
  if (!WriteTo("/proc/self/setgroups", "deny") && errno != ENOENT) return Fault("keep the groups");
  if (!WriteTo("/proc/self/uid_map", MapOf(user))) return Fault("keep the user");
  if (!WriteTo("/proc/self/gid_map", MapOf(group))) return Fault("keep the group");
  return std::nullopt;
}

std::string StepOf(const Bind& bind) { return "mount " + bind.source + " on " + bind.target; }

int SetReadOnly(int tree, const char* path) {
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  return mount_setattr(tree, path, AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof(attributes));
}

// Copies of the trees are made first, so that each keeps the flags that it has on the host.
std::optional<MountFault> MakeNewest(const MountPlan& plan) {
  constexpr unsigned kCopy = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE;
  std::vector<FileDescriptor> trees;
  for (const Bind& bind : plan.binds) {
    trees.emplace_back(open_tree(AT_FDCWD, bind.source.c_str(), kCopy));
    if (!trees.back().valid()) return Fault(StepOf(bind));
    if (plan.read_only && !bind.writable && SetReadOnly(trees.back().get(), "") != 0) {
      return Fault("make " + bind.target + " read-only");
    }
  }
  if (plan.read_only && SetReadOnly(AT_FDCWD, "/") != 0) return Fault("make / read-only");
  for (size_t index = 0; index < plan.binds.size(); ++index) {
    const Bind& bind = plan.binds[index];
    if (move_mount(trees[index].get(), "", AT_FDCWD, bind.target.c_str(),
                   MOVE_MOUNT_F_EMPTY_PATH) != 0) {
      return Fault(StepOf(bind));
    }
  }
  return std::nullopt;
}

// A mount that this process cannot reach is out of the rank's reach, too.
bool IsHidden(int error) { return error == EACCES || error == ENOENT || error == EINVAL; }

std::optional<MountFault> RemountReadOnly(const MountPlan& plan) {
  std::ifstream file("/proc/self/mountinfo");
  const std::string listed = (std::stringstream() << file.rdbuf()).str();
  for (const HostMount& each : ParseMountInfo(listed)) {
    if (StaysWritable(plan, each.path)) continue;
    // The flags are replaced by these, and some cannot be taken away.
    const unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | each.flags;
    if (mount(nullptr, each.path.c_str(), nullptr, flags, nullptr) != 0 && !IsHidden(errno)) {
      return Fault("make " + each.path + " read-only");
    }
  }
  return std::nullopt;
}

// A source may be hidden by an earlier bind, so all are opened first.
std::optional<MountFault> MakeClassic(const MountPlan& plan) {
  std::vector<FileDescriptor> sources;
  for (const Bind& bind : plan.binds) {
    sources.emplace_back(open(bind.source.c_str(), O_PATH | O_CLOEXEC));
    if (!sources.back().valid()) return Fault(StepOf(bind));
  }
  for (size_t index = 0; index < plan.binds.size(); ++index) {
    const std::string source = "/proc/self/fd/" + std::to_string(sources[index].get());
    if (mount(source.c_str(), plan.binds[index].target.c_str(), nullptr, MS_BIND | MS_REC,
              nullptr) != 0) {
      return Fault(StepOf(plan.binds[index]));
    }
  }
  return plan.read_only ? RemountReadOnly(plan) : std::nullopt;
}

// An older kernel has none, and an older filter of system calls denies them.
bool HasNewestCalls() { return SetReadOnly(-1, "") != 0 && errno != ENOSYS && errno != EPERM; }

}  // namespace

std::vector<TmpPlace> TmpPlaces() {
  std::vector<TmpPlace> places;
  for (const auto& [path, name] : {std::pair("/tmp", "tmp"), std::pair("/var/tmp", "var-tmp")}) {
    const std::string real = RealPath(path);
    if (!real.empty() && (places.empty() || places.front().path != real)) {
      places.push_back({real, name});
    }
  }
  return places;
}

std::optional<MountFault> EnterMountNamespace(bool keep_users, bool follow_host) {
  if (unshare(CLONE_NEWNS) != 0) {
    if (errno != EPERM || keep_users) return Fault("make a mount namespace");
    if (auto fault = EnterUserNamespace()) return fault;
  }
  const unsigned long propagation = MS_REC | (follow_host ? MS_SLAVE : MS_PRIVATE);
  if (mount(nullptr, "/", nullptr, propagation, nullptr) == 0) return std::nullopt;
  return Fault("separate the mounts from the host's");
}

std::optional<MountFault> MakeMounts(const MountPlan& plan, MountCalls calls) {
  const bool newest = calls == MountCalls::kNewest && HasNewestCalls();
  return newest ? MakeNewest(plan) : MakeClassic(plan);
}

std::optional<MountFault> Confine(const RankMounts& mounts, bool keep_users) {
  if (!mounts.any()) return std::nullopt;
  const std::string directory = RealPath(".");
  // A mount that the host makes later would be writable.
  if (auto fault = EnterMountNamespace(keep_users, !mounts.read_only_root)) return fault;
  if (auto fault = MakeMounts(PlanMounts(mounts, TmpPlaces()))) return fault;
  // The former working directory may be hidden now, and would lead to the host's files.
  if (!directory.empty() && chdir(directory.c_str()) == 0) return std::nullopt;
  if (chdir("/") == 0) return std::nullopt;
  return Fault("enter /");
}

}  // namespace dp::worker
