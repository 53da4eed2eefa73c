#pragma once

#include <set>
#include <vector>

#include "dp/module.h"

namespace dp::library {

// The module that a DistributedDataParallel wraps, and the parameters whose gradients lie in that
// object's memory. A second object would move or average the same gradients, so one at a time may
// claim them. The claims of a process are known to all of its threads. Not thread-safe itself.
class ModuleClaim {
 public:
  // Throws kWrongState if another object claims the module, or the gradient of one of `parameters`.
  ModuleClaim(const distributed::Module& module,
              const std::vector<distributed::Parameter>& parameters);
  ~ModuleClaim();
  ModuleClaim(const ModuleClaim&) = delete;
  ModuleClaim& operator=(const ModuleClaim&) = delete;

  // The gradient of `parameter` lies in this object's memory from now on.
  void AddGradient(const distributed::Parameter& parameter);

 private:
  std::set<const void*> claimed_;  // modules, and the values of parameters
};

}  // namespace dp::library
