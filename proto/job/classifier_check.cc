#include "proto/job/classifier_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp {
namespace {

// Small sets of digits or clothes may lack a class.
constexpr int kClassesMin = 10;

int OutputsOf(const SampleForm& form) {
  if (!form.targets.empty()) return static_cast<int>(form.targets.back());
  return form.exactly ? form.classes : std::max(kClassesMin, form.classes);
}

absl::Status NotOneForEachTarget(const model::CheckedLayer& last, const model::Shape& targets) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the last layer '", last.name, "' (", model::KindName(last.kind), ") gives ",
      model::ShapeText(last.out), ", but each sample has ", model::ShapeText(targets), " targets"));
}

}  // namespace

absl::StatusOr<std::vector<model::CheckedLayer>> CheckFits(
    const std::vector<model::LayerSpec>& layers, const SampleForm& form, bool any_output) {
  const std::vector<model::LayerSpec> specs = model::WithOutputs(layers, OutputsOf(form));
  DP_ASSIGN_OR_RETURN(std::vector<model::CheckedLayer> checked,
                      model::CheckShapes(specs, form.shape));
  if (any_output) return checked;
  const model::Shape& out = checked.back().out;
  if (!form.targets.empty()) {
    if (out == form.targets) return checked;
    return NotOneForEachTarget(checked.back(), form.targets);
  }
  const bool more = out.size() == 1 && out[0] >= form.classes;
  if (more && !form.exactly) return checked;
  return model::CheckClassifier(specs, form.shape, form.classes);
}

absl::Status CheckClassWeights(int count, const model::CheckedLayer& last) {
  if (count == 0 || count == last.out.back()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "train.loss.crossEntropy.classWeights has ", count, " numbers, and the last layer '",
      last.name, "' gives ", last.out.back(), " values; give one for each"));
}

}  // namespace dp
