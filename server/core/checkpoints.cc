#include "server/core/checkpoints.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/status.h"

namespace dp::core {
namespace {

constexpr size_t kSha256HexBytes = 64;

absl::Status CheckFile(const std::string& path, const std::string& sha256, int64_t bytes) {
  if (path.empty() || path.size() > kPathBytesMax || path.front() != '/') {
    return absl::InvalidArgumentError(absl::StrCat(
        "path has ", path.size(), " bytes; give an absolute one of at most ", kPathBytesMax));
  }
  if (sha256.size() != kSha256HexBytes ||
      !std::all_of(sha256.begin(), sha256.end(), absl::ascii_isxdigit)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sha256 is no ", kSha256HexBytes, " hex digits"));
  }
  if (bytes >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("bytes is ", bytes, "; it cannot be negative"));
}

}  // namespace

bool Checkpoints::Register(const RegisterCheckpoint& command, absl::Time at) {
  const bool latest = RegisterLatest(command, at);
  const bool best = !command.best.empty() && RegisterBest(command, at);
  return latest || best;
}

// A generation registers its best ones in the order of their steps, too. The earlier registration
// of the same checkpoint as one of the latest keeps its time.
bool Checkpoints::RegisterBest(const RegisterCheckpoint& command, absl::Time at) {
  const Generation generation = command.rank.generation;
  if (best_ && best_->generation == generation && best_->step >= command.step) return false;
  const auto same = std::find_if(all_.begin(), all_.end(), [&](const Checkpoint& one) {
    return one.path == command.path && one.generation == generation;
  });
  best_ = same != all_.end() ? *same : Checkpoint{command.step,   generation,    command.path,
                                                  command.sha256, command.bytes, at};
  best_->best = command.best;
  return true;
}

bool Checkpoints::RegisterLatest(const RegisterCheckpoint& command, absl::Time at) {
  DP_CHECK(command.keep >= 1);
  const Generation generation = command.rank.generation;
  const Checkpoint* last = latest();
  // A generation registers its steps once and in order.
  if (last != nullptr && last->generation == generation && last->step >= command.step) return false;
  const auto later = [&](const Checkpoint& one) { return one.step >= command.step; };
  all_.erase(std::remove_if(all_.begin(), all_.end(), later), all_.end());
  all_.push_back({command.step, generation, command.path, command.sha256, command.bytes, at});
  const size_t keep = static_cast<size_t>(command.keep);
  if (all_.size() > keep) all_.erase(all_.begin(), all_.end() - static_cast<ptrdiff_t>(keep));
  return true;
}

Checkpoints Checkpoints::Of(std::vector<Checkpoint> all, std::optional<Checkpoint> best) {
  Checkpoints checkpoints;
  checkpoints.all_ = std::move(all);
  checkpoints.best_ = std::move(best);
  return checkpoints;
}

absl::Status CheckRegistration(const RegisterCheckpoint& command) {
  if (command.step < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("step is ", command.step, "; it counts the steps that are done"));
  }
  if (command.keep < 1 || command.keep > kCheckpointsKeptMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("keep is ", command.keep, "; it must be from 1 to ", kCheckpointsKeptMax));
  }
  return CheckFile(command.path, command.sha256, command.bytes);
}

absl::Status CheckRegistration(const RegisterWeights& command) {
  return CheckFile(command.path, command.sha256, command.bytes);
}

}  // namespace dp::core
