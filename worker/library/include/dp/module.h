#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dp/elements.h"

namespace dp::distributed {

// A weight or bias of a model. It lies in the host's memory, or on a GPU: the group's, if the
// group's backend is nccl, or a device of DataParallel. Buffers may lie in either.
struct Parameter {
  std::string name;            // unique within the model: "fc1.weight"
  std::vector<int64_t> shape;  // the product is the count of `values`
  MutableElements values;
  // Where the model keeps the gradient: as many elements of the same type. Nothing if the model
  // has no such memory and move_gradient gives it some.
  std::optional<MutableElements> gradient = std::nullopt;
};

// Values of a model that forward changes and nothing learns, as running means.
struct Buffer {
  std::string name;
  std::vector<int64_t> shape;
  MutableElements values;
};

// The states of an optimizer, whole: by parameter's name, then by state, as many floats as the
// parameter has.
using OptimizerStates = std::map<std::string, std::vector<std::vector<float>>>;

// A model, as far as DistributedDataParallel needs to know it. Every rank has the same names,
// shapes and types, in the same order.
class Module {
 public:
  virtual ~Module() = default;

  // In the order in which forward uses them.
  virtual std::vector<Parameter> parameters() = 0;
  virtual std::vector<Buffer> buffers() { return {}; }
  // Offers `memory` for the gradient of the parameter of that index, instead of the module's own.
  // It holds what the gradient held before. A module that takes it returns true, and reads and
  // writes the gradient there from now on. Without this, gradients are copied twice each step.
  virtual bool move_gradient(size_t index, MutableElements memory) {
    (void)index, (void)memory;
    return false;
  }
};

}  // namespace dp::distributed
