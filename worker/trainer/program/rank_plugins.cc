#include "worker/trainer/program/rank_plugins.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file_descriptor.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"
#include "worker/trainer/checkpoint/sha256.h"
#include "worker/trainer/model/plugin_layers.h"

namespace dp::trainer {
namespace {

constexpr char kHashesKey[] = "plugins/0";

absl::StatusOr<std::string> HashOf(const std::string& library) {
  const FileDescriptor file(open(library.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.valid()) return Sha256HexOfFile(file.get(), library);
  return absl::ErrnoToStatus(errno, absl::StrCat("plug-in library '", library, "' cannot be read"));
}

// Once for each library.
absl::Status NoteHash(const std::string& library, std::vector<PluginFile>& files) {
  const bool known = std::any_of(files.begin(), files.end(),
                                 [&](const PluginFile& file) { return file.library == library; });
  if (known) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(std::string sha256, HashOf(library));
  files.push_back({library, std::move(sha256)});
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadPlugins(TrainingPlan& plan) {
  return LoadPluginLayers(
      plan, [&](const model::Plugin& plugin) { return NoteHash(plugin.library, plan.plugins); });
}

absl::Status AgreeOnPlugins(Store& store, const Environment& environment, const TrainingPlan& plan,
                            absl::Duration timeout) {
  if (plan.plugins.empty() || environment.world_size == 1) return absl::OkStatus();
  if (environment.rank == 0) {
    // All ranks have one plan, so the hashes are in one order.
    return store.Set(kHashesKey, absl::StrJoin(plan.plugins, "\n", [](auto* out, const auto& file) {
                       absl::StrAppend(out, file.sha256);
                     }));
  }
  const absl::StatusOr<std::string> published = store.Get(kHashesKey, timeout);
  if (absl::IsDeadlineExceeded(published.status())) {
    return engine::DidNotArrive("hashes of the plug-ins", {0}, timeout);
  }
  DP_RETURN_IF_ERROR(published.status());
  const std::vector<std::string> hashes = absl::StrSplit(*published, '\n');
  for (size_t i = 0; i < plan.plugins.size(); ++i) {
    const PluginFile& file = plan.plugins[i];
    const std::string of_rank_zero = i < hashes.size() ? hashes[i] : "";
    if (file.sha256 == of_rank_zero) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", environment.rank, " on worker ", environment.worker, ": plug-in library '",
        file.library, "' has SHA-256 ", file.sha256, ", and that of rank 0 has ", of_rank_zero,
        "; put the same file on every host"));
  }
  return absl::OkStatus();
}

}  // namespace dp::trainer
