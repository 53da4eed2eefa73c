#include "worker/library/spawn/rank_end.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/signal_name.h"

namespace dp::library {
namespace {

auto OrderOfCauses(const RankEnd& end) {
  const bool thrown = end.thrown.has_value();
  return std::make_tuple(thrown && end.thrown->blames_peers, thrown, thrown ? end.thrown->at_ns : 0,
                         end.rank);
}

std::string FateOf(const RankEnd& end) {
  if (end.thrown) return absl::StrCat("threw an exception: ", end.thrown->text);
  if (end.signal) return absl::StrCat("was killed by ", SignalText(*end.signal));
  if (end.exit_code) return absl::StrCat("exited with code ", *end.exit_code);
  return "ended, but other code of this process took its exit status; let spawn alone wait for it";
}

}  // namespace

bool IsFailure(const RankEnd& end) { return end.thrown || end.exit_code != 0; }

const RankEnd* RootCause(absl::Span<const RankEnd> ends) {
  const RankEnd* cause = nullptr;
  for (const RankEnd& end : ends) {
    if (!IsFailure(end)) continue;
    if (cause == nullptr || OrderOfCauses(end) < OrderOfCauses(*cause)) cause = &end;
  }
  return cause;
}

distributed::SpawnError SpawnErrorOf(const RankEnd& end) {
  return {absl::StrCat("spawn: rank ", end.rank, " (process ", end.pid, ") ", FateOf(end)),
          end.rank, end.pid, end.exit_code, end.signal};
}

}  // namespace dp::library
