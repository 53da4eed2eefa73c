#include "base/model/shape_check.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/overloaded.h"
#include "base/status.h"

namespace dp::model {
namespace {

// More elements than this in one activation or weight is a slip of the pen: 1 GiB of floats.
constexpr int64_t kElementsMax = int64_t{1} << 28;

// One layer under check: what comes in, who gives it, and how to complain.
class Check {
 public:
  Check(std::string name, const LayerKind& kind, const Shape& in, std::string giver)
      : name_(std::move(name)), kind_(kind), in_(in), giver_(std::move(giver)) {}

  absl::StatusOr<CheckedLayer> Run() {
    DP_ASSIGN_OR_RETURN(CheckedLayer layer,
                        std::visit([this](const auto& kind) { return Fit(kind); }, kind_));
    if (TooLarge(layer.out)) {
      return Misfit(absl::StrCat("gives more than ", kElementsMax, " values a sample"));
    }
    return layer;
  }

 private:
  absl::StatusOr<CheckedLayer> Fit(Linear linear) {
    if (in_.size() != 1) return Misfit(absl::StrCat("needs a flat input, but ", Given()));
    if (linear.out <= 0) return Misfit(absl::StrCat("out is ", linear.out, "; it must be above 0"));
    if (linear.in != 0 && linear.in != in_[0]) {
      return Misfit(absl::StrCat("in is ", linear.in, ", but ", Given()));
    }
    linear.in = static_cast<int>(in_[0]);
    if (TooLarge({linear.in, linear.out})) return Misfit("has too many weights");
    return Layer(linear, {linear.out});
  }

  absl::StatusOr<CheckedLayer> Fit(Conv2d conv) {
    if (in_.size() != 3)
      return Misfit(absl::StrCat("needs channels x rows x columns, but ", Given()));
    if (conv.out <= 0) return Misfit(absl::StrCat("out is ", conv.out, "; it must be above 0"));
    if (conv.padding < 0) return Misfit(absl::StrCat("padding is ", conv.padding, ", below 0"));
    if (conv.in != 0 && conv.in != in_[0]) {
      return Misfit(absl::StrCat("in is ", conv.in, ", but ", giver_, " gives ", in_[0],
                                 " channels (", ShapeText(in_), ")"));
    }
    conv.in = static_cast<int>(in_[0]);
    DP_ASSIGN_OR_RETURN(Shape out, Slide(conv.out, conv.kernel, conv.stride, conv.padding));
    if (TooLarge({conv.in, conv.out, conv.kernel, conv.kernel})) {
      return Misfit("has too many weights");
    }
    return Layer(conv, std::move(out));
  }

  absl::StatusOr<CheckedLayer> Fit(MaxPool2d pool) {
    if (in_.size() != 3)
      return Misfit(absl::StrCat("needs channels x rows x columns, but ", Given()));
    if (pool.stride == 0) pool.stride = pool.kernel;
    DP_ASSIGN_OR_RETURN(Shape out, Slide(in_[0], pool.kernel, pool.stride, 0));
    return Layer(pool, std::move(out));
  }

  absl::StatusOr<CheckedLayer> Fit(Dropout dropout) {
    if (!(dropout.p >= 0 && dropout.p < 1)) {
      return Misfit(absl::StrCat("p is ", dropout.p, "; it must be at least 0 and below 1"));
    }
    return Layer(dropout, in_);
  }

  absl::StatusOr<CheckedLayer> Fit(Relu relu) { return Layer(relu, in_); }
  absl::StatusOr<CheckedLayer> Fit(Flatten flatten) { return Layer(flatten, {ElementCount(in_)}); }

  // The shape that a window of `kernel` x `kernel` leaves when it slides over the padded image.
  absl::StatusOr<Shape> Slide(int64_t channels, int64_t kernel, int64_t stride, int64_t padding) {
    if (kernel <= 0) return Misfit(absl::StrCat("kernel is ", kernel, "; it must be above 0"));
    if (stride <= 0) return Misfit(absl::StrCat("stride is ", stride, "; it must be above 0"));
    const int64_t rows = in_[1] + 2 * padding;
    const int64_t columns = in_[2] + 2 * padding;
    if (kernel > rows || kernel > columns) {
      return Misfit(absl::StrCat("kernel ", kernel, "x", kernel, " with padding ", padding,
                                 " does not fit, as ", Given()));
    }
    return Shape{channels, (rows - kernel) / stride + 1, (columns - kernel) / stride + 1};
  }

  CheckedLayer Layer(LayerKind kind, Shape out) const {
    return {name_, std::move(kind), in_, std::move(out)};
  }

  // "'flatten6' gives 1568 features"
  std::string Given() const {
    return absl::StrCat(giver_, " gives ", ShapeText(in_), in_.size() == 1 ? " features" : "");
  }

  absl::Status Misfit(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("layer '", name_, "' (", KindName(kind_), "): ", what));
  }

  static bool TooLarge(const Shape& shape) {
    int64_t count = 1;
    for (int64_t extent : shape) {
      if (extent > kElementsMax / count) return true;
      count *= extent;
    }
    return false;
  }

  const std::string name_;
  const LayerKind& kind_;
  const Shape& in_;
  const std::string giver_;
};

std::string NameOf(const LayerSpec& layer, size_t position) {
  return layer.name.empty() ? absl::StrCat(KindName(layer.kind), position) : layer.name;
}

}  // namespace

bool IsLayerName(absl::string_view name) {
  constexpr size_t kBytesMax = 128;
  return !name.empty() && name.size() <= kBytesMax && absl::c_all_of(name, [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
  });
}

absl::StatusOr<std::vector<CheckedLayer>> CheckShapes(absl::Span<const LayerSpec> layers,
                                                      const Shape& input) {
  if (layers.empty()) return absl::InvalidArgumentError("the model has no layers");
  std::vector<CheckedLayer> checked;
  absl::btree_set<std::string> names;
  Shape shape = input;
  std::string giver = "the data";
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string name = NameOf(layers[i], i);
    if (!IsLayerName(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layer ", i, " has the name \"", absl::CEscape(name), "\"; it may be ", kLayerNameRule));
    }
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two layers have the name '", name, "'; names must differ"));
    }
    DP_ASSIGN_OR_RETURN(CheckedLayer layer, Check(name, layers[i].kind, shape, giver).Run());
    shape = layer.out;
    giver = absl::StrCat("'", name, "'");
    checked.push_back(std::move(layer));
  }
  return checked;
}

absl::StatusOr<std::vector<CheckedLayer>> CheckClassifier(absl::Span<const LayerSpec> layers,
                                                          const Shape& input, int classes) {
  DP_ASSIGN_OR_RETURN(std::vector<CheckedLayer> checked, CheckShapes(layers, input));
  const CheckedLayer& last = checked.back();
  if (last.out != Shape{classes}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the last layer '", last.name, "' (", KindName(last.kind), ") gives ", ShapeText(last.out),
        last.out.size() == 1 ? " features" : "", ", but the data has ", classes, " classes"));
  }
  return checked;
}

}  // namespace dp::model
