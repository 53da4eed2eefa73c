#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/model/plugin_layer.h"

namespace dp::engine {

// A layer of a plug-in's table as the engine sees it. Checks what the plug-in says of its layers,
// for the plug-in is not dp's code. `kind` lives as long as the process; `library` is for errors.
std::shared_ptr<const model::PluginKind> KindOf(const DpPluginKind& kind,
                                                const std::string& library);

}  // namespace dp::engine
