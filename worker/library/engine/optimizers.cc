#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "dp/engine.h"
#include "worker/engine/nn/adamw.h"
#include "worker/engine/nn/sgd.h"
#include "worker/library/engine/engine_error.h"
#include "worker/library/engine/floats_of.h"
#include "worker/library/memory/overlap.h"

namespace dp::distributed {
namespace {

using library::FloatsOf;
using library::Overlap;

absl::Span<float> View(std::span<float> values) { return {values.data(), values.size()}; }

// Errors: InvalidArgument names the parameter.
absl::Status CheckTrains(const Parameter& parameter) {
  const auto is_float = [](const MutableElements& e) { return e.type == DataType::kFloat32; };
  if (!is_float(parameter.values)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parameter '", parameter.name, "' is not of float32; the optimizer needs that"));
  }
  const auto is_null = [](const MutableElements& e) { return e.data == nullptr && e.count > 0; };
  if (is_null(parameter.values) || (parameter.gradient && is_null(*parameter.gradient))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parameter '", parameter.name, "' has ", parameter.values.count,
        " elements, and the address of its ", is_null(parameter.values) ? "values" : "gradient",
        " is null; let parameters() name memory of that size"));
  }
  if (parameter.gradient && Overlap(*parameter.gradient, parameter.values)) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter '", parameter.name,
                     "' has its gradient in the memory of its values; let parameters() name memory "
                     "of its own for it"));
  }
  if (parameter.gradient.has_value() && is_float(*parameter.gradient) &&
      parameter.gradient->count == parameter.values.count) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("parameter '", parameter.name,
                   "' has no gradient of float32 and of its size; let parameters() name the memory "
                   "where the gradient is"));
}

// The parameters of the module, which may have moved their gradients since the latest call.
absl::StatusOr<std::vector<Parameter>> ParametersOf(Module& module) {
  std::vector<Parameter> parameters = module.parameters();
  for (const Parameter& parameter : parameters) DP_RETURN_IF_ERROR(CheckTrains(parameter));
  return parameters;
}

// The same for an optimizer that has `states`.
absl::StatusOr<std::vector<Parameter>> ParametersFor(const OptimizerStates& states,
                                                     Module& module) {
  DP_ASSIGN_OR_RETURN(std::vector<Parameter> parameters, ParametersOf(module));
  for (const Parameter& parameter : parameters) {
    const auto found = states.find(parameter.name);
    if (found == states.end()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the optimizer has no states for parameter '", parameter.name,
          "': it was moved from, or the module has got the parameter since; use the optimizer that "
          "it became, or make a new one"));
    }
    const size_t size = found->second[0].size();
    if (size == parameter.values.count) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "parameter '", parameter.name, "' has ", parameter.values.count, " elements, and had ",
        size, " when the optimizer was made; make a new optimizer"));
  }
  return parameters;
}

absl::Status CheckRange(const char* option, double value, double from, double below) {
  if (value >= from && value < below) return absl::OkStatus();
  const bool bounded = std::isfinite(below);
  return absl::InvalidArgumentError(absl::StrCat(
      option, " is ", value, "; give ", from,
      bounded ? absl::StrCat(" or more, but less than ", below) : std::string(" or more")));
}

constexpr double kNoEnd = std::numeric_limits<double>::infinity();

absl::Status CheckSgd(const SgdOptions& options) {
  DP_RETURN_IF_ERROR(CheckRange("learning_rate", options.learning_rate, 0, kNoEnd));
  DP_RETURN_IF_ERROR(CheckRange("momentum", options.momentum, 0, kNoEnd));
  DP_RETURN_IF_ERROR(CheckRange("weight_decay", options.weight_decay, 0, kNoEnd));
  if (!options.nesterov || options.momentum > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("nesterov needs a momentum above 0");
}

absl::Status CheckAdamW(const AdamWOptions& options) {
  DP_RETURN_IF_ERROR(CheckRange("learning_rate", options.learning_rate, 0, kNoEnd));
  DP_RETURN_IF_ERROR(CheckRange("beta1", options.beta1, 0, 1));
  DP_RETURN_IF_ERROR(CheckRange("beta2", options.beta2, 0, 1));
  DP_RETURN_IF_ERROR(CheckRange("epsilon", options.epsilon, 0, kNoEnd));
  return CheckRange("weight_decay", options.weight_decay, 0, kNoEnd);
}

absl::Status TwoNamed(const std::string& name) {
  return absl::InvalidArgumentError(
      absl::StrCat("two parameters are named '", name,
                   "', and the optimizer keeps its states by name; give each a name of its own"));
}

// More steps than a training does; beyond, a double cannot count each of them.
constexpr int64_t kStepsMax = int64_t{1} << 53;

absl::Status CheckSteps(int64_t steps) {
  if (steps >= 0 && steps <= kStepsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("steps is ", steps, "; give 0 to ", kStepsMax, ", as steps() returned it"));
}

OptimizerStates ZerosFor(Module& module, size_t states) {
  OptimizerStates zeros;
  for (const Parameter& parameter : library::ValueOrThrow(ParametersOf(module))) {
    const auto [state, is_new] = zeros.try_emplace(parameter.name);
    library::OkOrThrow(is_new ? absl::OkStatus() : TwoNamed(parameter.name));
    state->second.assign(states, std::vector<float>(parameter.values.count));
  }
  return zeros;
}

// Errors: InvalidArgument names the parameter that `loaded` lacks or has in another size.
absl::Status CheckSameShape(const OptimizerStates& states, const OptimizerStates& loaded) {
  for (const auto& [name, own] : states) {
    const auto found = loaded.find(name);
    const auto same_size = [](const auto& a, const auto& b) { return a.size() == b.size(); };
    if (found != loaded.end() &&
        std::equal(own.begin(), own.end(), found->second.begin(), found->second.end(), same_size)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "parameter '", name, "' has ", own.size(), " states of ", own[0].size(),
        " floats, and those to load are ", found == loaded.end() ? "missing" : "of other sizes"));
  }
  return absl::OkStatus();
}

}  // namespace

Sgd::Sgd(Module& module, const SgdOptions& options) : module_(module), options_(options) {
  library::OkOrThrow(CheckSgd(options_));
  states_ = ZerosFor(module, 1);
}

void Sgd::step() {
  const engine::SgdOptions options = {.learning_rate = static_cast<float>(options_.learning_rate),
                                      .momentum = static_cast<float>(options_.momentum),
                                      .weight_decay = static_cast<float>(options_.weight_decay),
                                      .nesterov = options_.nesterov};
  for (const Parameter& parameter : library::ValueOrThrow(ParametersFor(states_, module_))) {
    engine::SgdStep(options, View(FloatsOf(*parameter.gradient)),
                    absl::MakeSpan(states_.at(parameter.name)[0]),
                    View(FloatsOf(parameter.values)));
  }
}

void Sgd::set_learning_rate(double rate) {
  SgdOptions changed = options_;
  changed.learning_rate = rate;
  library::OkOrThrow(CheckSgd(changed));
  options_ = changed;
}

void Sgd::load(const OptimizerStates& states) {
  library::OkOrThrow(CheckSameShape(states_, states));
  for (auto& [name, own] : states_) own = states.at(name);
}

AdamW::AdamW(Module& module, const AdamWOptions& options) : module_(module), options_(options) {
  library::OkOrThrow(CheckAdamW(options_));
  states_ = ZerosFor(module, 2);
}

void AdamW::step() {
  const engine::AdamWOptions options = {.learning_rate = options_.learning_rate,
                                        .beta1 = options_.beta1,
                                        .beta2 = options_.beta2,
                                        .epsilon = options_.epsilon,
                                        .weight_decay = options_.weight_decay,
                                        .decay_all = options_.decay_all};
  const std::vector<Parameter> parameters = library::ValueOrThrow(ParametersFor(states_, module_));
  ++steps_;
  for (const Parameter& parameter : parameters) {
    const auto size = static_cast<int64_t>(parameter.values.count);
    const engine::ParameterLayout alone = {{{.shape = parameter.shape, .size = size}}, size};
    std::vector<std::vector<float>>& moments = states_.at(parameter.name);
    engine::AdamWStep(options, steps_, alone, View(FloatsOf(*parameter.gradient)),
                      {absl::MakeSpan(moments[0]), absl::MakeSpan(moments[1])},
                      View(FloatsOf(parameter.values)));
  }
}

void AdamW::set_learning_rate(double rate) {
  AdamWOptions changed = options_;
  changed.learning_rate = rate;
  library::OkOrThrow(CheckAdamW(changed));
  options_ = changed;
}

void AdamW::load(const OptimizerStates& states, int64_t steps) {
  library::OkOrThrow(CheckSameShape(states_, states));
  library::OkOrThrow(CheckSteps(steps));
  for (auto& [name, own] : states_) own = states.at(name);
  steps_ = steps;
}

}  // namespace dp::distributed
