#include "worker/trainer/checkpoint/best_checkpoint.h"

#include <array>
#include <string>

#include "base/check.h"
#include "base/limits.h"
#include "base/status.h"
#include "worker/trainer/checkpoint/resume.h"

namespace dp::trainer {
namespace {

constexpr size_t kSha256HexBytes = 64;

// Rank 0 broadcasts this to the others, as bytes.
struct Choice {
  int64_t step = 0;  // 0: there is none
  std::array<char, kPathBytesMax + 1> path = {};
  std::array<char, kSha256HexBytes + 1> sha256 = {};
};

}  // namespace

absl::StatusOr<int64_t> TakeBest(const std::optional<v1::Checkpoint>& best,
                                 const v1::CheckpointManifest& now, int64_t step, RankModel& model,
                                 engine::Group& group) {
  Choice choice;
  // The state of this generation's last step is in the model.
  const bool last = best && best->step() == step && best->generation() == now.generation();
  if (best && !last) {
    choice.step = best->step();
    best->path().copy(choice.path.data(), choice.path.size() - 1);
    best->sha256().copy(choice.sha256.data(), choice.sha256.size() - 1);
  }
  const absl::Span<uint8_t> bytes(reinterpret_cast<uint8_t*>(&choice), sizeof(choice));
  DP_RETURN_IF_ERROR(group.on_host().Broadcast(bytes, /*root=*/0)->Wait());
  if (choice.step == 0) return step;
  DP_ASSIGN_OR_RETURN(const std::optional<Resumed> taken,
                      Resume({{choice.path.data(), choice.sha256.data()}}, now, model, group));
  DP_CHECK(taken.has_value());  // only without points there is none
  return taken->position.step;
}

}  // namespace dp::trainer
