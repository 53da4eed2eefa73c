#include "worker/trainer/model/plugin_layers.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "base/model/layer_fault.h"
#include "base/status.h"
#include "worker/engine/plugin/loaded_plugin.h"

namespace dp::trainer {
namespace {

absl::Status Load(model::Plugin& plugin) {
  DP_ASSIGN_OR_RETURN(const engine::LoadedPlugin library,
                      engine::LoadedPlugin::Load(plugin.library));
  DP_ASSIGN_OR_RETURN(plugin.loaded, library.Find(plugin.layer));
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadPluginLayers(TrainingPlan& plan,
                              absl::FunctionRef<absl::Status(const model::Plugin& plugin)> loaded) {
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    auto* plugin = std::get_if<model::Plugin>(&plan.layers[i].kind);
    if (plugin == nullptr) continue;
    absl::Status status = Load(*plugin);
    if (status.ok()) status = loaded(*plugin);
    if (status.ok()) continue;
    return absl::Status(status.code(), absl::StrCat("layer '", model::NameOf(plan.layers[i], i),
                                                    "' (plugin): ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace dp::trainer
