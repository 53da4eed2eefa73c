#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/model/include/dp/layers.h"
#include "base/model/include/dp/plugin_abi.h"
#include "base/model/shape.h"

namespace dp::model {

// A parameter of a plug-in's layer. Its name is that behind the layer's: "scaled0.weight".
struct PluginParameter {
  enum class Initial { kConstant, kUniform, kNormal };
  std::string name;
  Shape shape;
  Initial initial = Initial::kConstant;
  float scale = 0;      // the constant, the bound of (-scale, scale), or the standard deviation
  double momentum = 0;  // above 0: a running statistic, with this share of a step
};

// One layer of a plug-in, for inputs of one shape. Its code runs on the calling thread. Not
// thread-safe.
class PluginLayer {
 public:
  virtual ~PluginLayer() = default;

  // The shape of one sample, of 1 to 3 extents above 0.
  virtual const Shape& out() const = 0;
  // Their extents are above 0, too, and their names differ.
  virtual const std::vector<PluginParameter>& parameters() const = 0;
  // As plugin_abi.h defines. Errors: InvalidArgument in the plug-in's own words.
  virtual absl::Status Forward(const DpPluginForward& batch) = 0;
  virtual absl::Status Backward(const DpPluginBackward& batch) = 0;
};

// A layer's surroundings. The defaults serve to ask a layer for its shapes.
struct PluginPlace {
  Shape in;            // of one sample
  int batch_size = 1;  // the most samples of a call
  int threads = 1;
  uint64_t seed = 0;  // of random numbers, beside DpPluginForward::draw
};

// A layer's code in a loaded library. Immutable.
class PluginKind {
 public:
  virtual ~PluginKind() = default;
  // Errors: InvalidArgument the config or the shape does not suit the plug-in, in its own words; or
  // what it says of itself is wrong.
  virtual absl::StatusOr<std::unique_ptr<PluginLayer>> Make(const std::vector<PluginValue>& config,
                                                            const PluginPlace& place) const = 0;
};

}  // namespace dp::model
