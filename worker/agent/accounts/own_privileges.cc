#include "worker/agent/accounts/own_privileges.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/program/log.h"

namespace dp::worker {
namespace {

enum class Need { kMust, kMay, kMustForMounts };

struct Needed {
  int number;
  const char* name;
  Need need;
};

constexpr Needed kNeeded[] = {
    {CAP_SETUID, "CAP_SETUID", Need::kMust},              // become the rank's user
    {CAP_SETGID, "CAP_SETGID", Need::kMust},              // and its groups
    {CAP_KILL, "CAP_KILL", Need::kMust},                  // end ranks
    {CAP_CHOWN, "CAP_CHOWN", Need::kMust},                // give a rank its spool files
    {CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", Need::kMust},  // read these, which only their user may
    // Find processes of other users where /proc hides them, and name the ranks that wait in a
    // store.
    {CAP_SYS_PTRACE, "CAP_SYS_PTRACE", Need::kMay},
    {CAP_SYS_ADMIN, "CAP_SYS_ADMIN", Need::kMustForMounts},  // give a rank mounts of its own
};

constexpr uint64_t Bit(int capability) { return uint64_t{1} << capability; }

bool Keeps(const Needed& needed, bool mounts) {
  return mounts || needed.need != Need::kMustForMounts;
}

uint64_t NeededBits(bool mounts) {
  uint64_t bits = 0;
  for (const Needed& each : kNeeded) {
    if (Keeps(each, mounts)) bits |= Bit(each.number);
  }
  return bits;
}

// The sets as the kernel passes them: two words of 32 bits.
struct Capabilities {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct words[2]{};

  bool Read() { return syscall(SYS_capget, &header, words) == 0; }
  bool Write() { return syscall(SYS_capset, &header, words) == 0; }
  uint64_t permitted() const { return words[0].permitted | uint64_t{words[1].permitted} << 32; }
  void Set(uint64_t bits) {
    for (int word = 0; word < 2; ++word) {
      const auto half = static_cast<uint32_t>(bits >> (32 * word));
      words[word] = {.effective = half, .permitted = half, .inheritable = 0};
    }
  }
};

// Without CAP_SETPCAP the set stays as the host's administrator has made it.
void LimitBoundingSet(uint64_t kept) {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    if ((kept & Bit(capability)) != 0 || prctl(PR_CAPBSET_READ, capability) == 0) continue;
    if (prctl(PR_CAPBSET_DROP, capability) == 0) continue;
    Log(Severity::kWarning, "capabilities_not_dropped", {{"reason", std::strerror(errno)}});
    return;
  }
}

}  // namespace

void ForgetVariable(const char* name) {
  if (char* value = getenv(name)) explicit_bzero(value, std::strlen(value));
  unsetenv(name);
}

absl::Status KeepNeededCapabilities(bool mounts) {
  Capabilities capabilities;
  if (!capabilities.Read()) {
    return absl::InternalError(absl::StrCat("capabilities: ", std::strerror(errno)));
  }
  const uint64_t permitted = capabilities.permitted();
  std::string missing;
  for (const Needed& each : kNeeded) {
    if (!Keeps(each, mounts) || each.need == Need::kMay || (permitted & Bit(each.number)) != 0)
      continue;
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", each.name);
  }
  if (!missing.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "running jobs as other users", mounts ? " with --private-tmp or --read-only-root" : "",
        " needs capabilities that this daemon lacks: ", missing,
        "; grant them, or add --run-as self --allow-root"));
  }
  LimitBoundingSet(NeededBits(mounts));
  DropAmbientCapabilities();
  capabilities.Set(permitted & NeededBits(mounts));
  if (capabilities.Write()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("capabilities: ", std::strerror(errno)));
}

void DropAmbientCapabilities() {
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);  // kernels without it have none
}

}  // namespace dp::worker
