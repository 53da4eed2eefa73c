#include "server/core/accusations.h"

#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "server/core/generation_end.h"

namespace dp::core {
namespace {

// Prefers a suspect whose host is gone to one that may hang because of it.
Failure FailureOfSuspect(const Job& job, const std::vector<int>& silent) {
  const std::set<int>& suspects = job.suspicion.suspects;
  const std::string& error = job.suspicion.error;
  const auto gone =
      absl::c_find_if(silent, [&suspects](int rank) { return suspects.contains(rank); });
  if (gone == silent.end()) {
    return FailureOf(job, *suspects.begin(), FailureClass::kHang,
                     absl::StrCat(Whereabouts(job, *suspects.begin()), " hangs: ", error));
  }
  return FailureOf(job, *gone, FailureClass::kInfra,
                   absl::StrCat(Whereabouts(job, *gone), ", which is silent: ", error));
}

}  // namespace

bool PeersAccused(Job& job, const AccusePeers& accusation, absl::Time at) {
  if (job.state != JobState::kRunning) return false;
  auto& [spoken, suspects, error] = job.suspicion;
  const int rank = accusation.rank.rank;
  bool changed = spoken.insert(rank).second;
  suspects.erase(rank);
  for (const int peer : accusation.missing) {
    if (!spoken.contains(peer)) changed |= suspects.insert(peer).second;
  }
  if (error.empty() && !accusation.missing.empty()) {
    error = absl::StrCat("rank ", rank, ": ",
                         std::string(Utf8Prefix(accusation.error, kLastLineBytesMax)));
  }
  const bool decided = suspects.size() == 1 || (accusation.insist && !suspects.empty());
  if (!decided) return changed;
  EndGeneration(job, FailureOfSuspect(job, accusation.silent), at);
  return true;
}

}  // namespace dp::core
