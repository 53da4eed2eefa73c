#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dp/ddp.h"
#include "worker/library/ddp/gradient_layout.h"

// The checks of a module and of the options, on one rank. They throw DistError of kInvalidArgument,
// which names the parameter or the option, its value and the remedy.

namespace dp::library {

// Each parameter has a name of its own, floats, and as many values and gradients as its shape says.
void CheckModule(const std::vector<distributed::Parameter>& parameters,
                 const std::vector<distributed::Buffer>& buffers);
// `gpu` is the group's, with backend nccl.
void CheckOptions(const distributed::DistributedDataParallelOptions& options,
                  std::optional<int> gpu);

// One line for each: "fc1.weight 3x2 float32".
std::string Describe(const std::vector<distributed::Parameter>& parameters);
std::string Describe(const std::vector<distributed::Buffer>& buffers);
// The options that all ranks must share.
std::string Describe(const distributed::DistributedDataParallelOptions& options);
std::vector<std::string> NamesOf(const std::vector<distributed::Parameter>& parameters);
std::vector<GradientSize> GradientSizesOf(const std::vector<distributed::Parameter>& parameters);

}  // namespace dp::library
