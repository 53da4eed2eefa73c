#include "proto/weights/weights_diff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/model/shape.h"
#include "proto/weights/elements.h"

namespace dp {
namespace {

using Kind = TensorDifference::Kind;

std::string FormText(const EncodedTensor& tensor) {
  return absl::StrCat(tensor.type, tensor.shape.empty() ? "" : " ", model::ShapeText(tensor.shape));
}

bool SameValue(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void CompareValues(const EncodedTensor& a, const EncodedTensor& b, TensorDifference& difference) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < ElementCountOf(a); ++i) {
    const double x = NumberAt(a, i), y = NumberAt(b, i);
    if (SameValue(x, y)) continue;
    ++difference.differing;
    const double apart = std::abs(x - y);
    const double size = std::max(std::abs(x), std::abs(y));
    const bool finite = std::isfinite(apart);  // infinite values are no measure of a distance
    difference.max_absolute = std::max(difference.max_absolute, finite ? apart : kInfinity);
    difference.max_relative = std::max(difference.max_relative, finite ? apart / size : kInfinity);
  }
}

TensorDifference CompareTwo(const std::string& name, const EncodedTensor& a,
                            const EncodedTensor& b) {
  TensorDifference difference{.name = name, .in_a = FormText(a), .in_b = FormText(b)};
  if (a.type == b.type && a.shape == b.shape && a.data == b.data) return difference;
  const bool comparable = a.shape == b.shape && HasNumbers(a) && HasNumbers(b);
  difference.kind = comparable ? Kind::kDiffers : Kind::kShape;
  if (comparable) CompareValues(a, b, difference);
  return difference;
}

}  // namespace

std::vector<TensorDifference> CompareTensors(const std::map<std::string, EncodedTensor>& a,
                                             const std::map<std::string, EncodedTensor>& b) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : a) names.insert(name);
  for (const auto& [name, tensor] : b) names.insert(name);
  std::vector<TensorDifference> differences;
  for (const std::string& name : names) {
    const auto in_a = a.find(name), in_b = b.find(name);
    if (in_a == a.end()) {
      differences.push_back({.name = name, .kind = Kind::kOnlyInB, .in_b = FormText(in_b->second)});
    } else if (in_b == b.end()) {
      differences.push_back({.name = name, .kind = Kind::kOnlyInA, .in_a = FormText(in_a->second)});
    } else {
      differences.push_back(CompareTwo(name, in_a->second, in_b->second));
    }
  }
  return differences;
}

}  // namespace dp
