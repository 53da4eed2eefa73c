#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "dp/v1/job_spec.pb.h"
#include "worker/engine/nn/parameter.h"

namespace dp::trainer {

// Weights with options of their own, by a pattern of their names.
struct ParameterGroup {
  std::string match;  // '*' is any text, '?' a character
  engine::ParameterOptions options;
};

ParameterGroup GroupOf(const v1::ParameterGroupSpec& spec);

// Gives each parameter of `layout` the options of the first group that matches its name. Pure.
// Errors: InvalidArgument names the group that gets no parameter, with names near its pattern; or
// no parameter is left to train.
absl::Status ApplyGroups(const std::vector<ParameterGroup>& groups,
                         engine::ParameterLayout& layout);

}  // namespace dp::trainer
