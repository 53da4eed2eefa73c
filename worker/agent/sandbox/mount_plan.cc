#include "worker/agent/sandbox/mount_plan.h"

#include <sys/mount.h>

#include <algorithm>
#include <iterator>
#include <sstream>

namespace dp::worker {
namespace {

// Permissions protect what is below these. Ranks write to devices and to their own /proc/self, and
// share memory through /dev/shm.
constexpr const char* kKernelTrees[] = {"/dev", "/proc"};

bool IsAtOrBelow(const std::string& path, const std::string& top) {
  if (top == "/") return true;
  return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

bool IsPrivate(const Bind& bind) { return bind.source != bind.target; }

// The bind that decides what is seen at the path; null: none. `binds` has the upper ones first.
const Bind* BindAbove(const std::vector<Bind>& binds, const std::string& path) {
  const auto found = std::find_if(binds.rbegin(), binds.rend(), [&path](const Bind& each) {
    return IsAtOrBelow(path, each.target);
  });
  return found == binds.rend() ? nullptr : &*found;
}

// All mounts that may be needed, for one target the stronger request first.
std::vector<Bind> Requests(const RankMounts& mounts, const std::vector<TmpPlace>& tmps) {
  std::vector<Bind> requests;
  for (const char* tree : kKernelTrees) requests.push_back({tree, tree, true});
  for (const auto& [path, name] : tmps) {
    const bool own = !mounts.private_tmp.empty();
    requests.push_back({own ? mounts.private_tmp + "/" + name : path, path, true});
  }
  if (!mounts.private_tmp.empty()) {
    const std::string above = mounts.private_tmp.substr(0, mounts.private_tmp.rfind('/'));
    requests.push_back({mounts.private_tmp, above, true});
  }
  for (const std::string& each : mounts.writable) requests.push_back({each, each, true});
  for (const std::string& each : mounts.shown) requests.push_back({each, each, false});
  std::stable_sort(requests.begin(), requests.end(),
                   [](const Bind& a, const Bind& b) { return a.target < b.target; });
  return requests;
}

// Whether the binds above do not fulfil the request already.
bool IsNeeded(const Bind& request, const std::vector<Bind>& above, bool read_only) {
  const Bind* bind = BindAbove(above, request.target);
  const bool within_private = bind != nullptr && IsPrivate(*bind);
  if (IsPrivate(request)) return !within_private;
  if (bind != nullptr && bind->target == request.target) return false;
  if (within_private) return true;
  return read_only && request.writable && (bind == nullptr || !bind->writable);
}

// mountinfo writes blanks and the like as three octal digits.
std::string Unescaped(const std::string& text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\' || at + 3 >= text.size()) {
      plain += text[at];
      continue;
    }
    const auto digit = [&](size_t place) { return text[at + place] - '0'; };
    plain += static_cast<char>(digit(1) * 64 + digit(2) * 8 + digit(3));
    at += 3;
  }
  return plain;
}

unsigned long FlagsIn(const std::string& options) {
  constexpr struct {
    const char* name;
    unsigned long flag;
  } kFlags[] = {{"nosuid", MS_NOSUID},   {"nodev", MS_NODEV},           {"noexec", MS_NOEXEC},
                {"noatime", MS_NOATIME}, {"nodiratime", MS_NODIRATIME}, {"relatime", MS_RELATIME}};
  unsigned long flags = 0;
  std::istringstream words(options);
  for (std::string word; std::getline(words, word, ',');) {
    const auto known = std::find_if(std::begin(kFlags), std::end(kFlags),
                                    [&word](const auto& each) { return word == each.name; });
    if (known != std::end(kFlags)) flags |= known->flag;
  }
  return flags;
}

}  // namespace

MountPlan PlanMounts(const RankMounts& mounts, const std::vector<TmpPlace>& tmps) {
  MountPlan plan{.read_only = mounts.read_only_root, .binds = {}};
  for (const Bind& request : Requests(mounts, tmps)) {
    if (IsNeeded(request, plan.binds, plan.read_only)) plan.binds.push_back(request);
  }
  return plan;
}

std::vector<MountPoint> MountPointsOf(const MountPlan& plan) {
  std::vector<MountPoint> points;
  std::vector<Bind> above;
  for (const Bind& bind : plan.binds) {
    const Bind* parent = BindAbove(above, bind.target);
    if (parent != nullptr && IsPrivate(*parent)) {
      points.push_back({parent->source + bind.target.substr(parent->target.size()), bind.source});
    }
    above.push_back(bind);
  }
  return points;
}

bool StaysWritable(const MountPlan& plan, const std::string& path) {
  if (!plan.read_only) return true;
  const Bind* bind = BindAbove(plan.binds, path);
  return bind != nullptr && bind->writable;
}

// ID PARENT MAJOR:MINOR ROOT PATH OPTIONS ...
std::vector<HostMount> ParseMountInfo(const std::string& text) {
  std::vector<HostMount> mounts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skipped;
    std::string path;
    std::string options;
    if (!(words >> skipped >> skipped >> skipped >> skipped >> path >> options)) continue;
    mounts.push_back({Unescaped(path), FlagsIn(options)});
  }
  return mounts;
}

}  // namespace dp::worker
