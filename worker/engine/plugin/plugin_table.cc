#include "worker/engine/plugin/plugin_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/status.h"
#include "base/utf8.h"

namespace dp::engine {
namespace {

using model::PluginParameter;
using model::PluginValue;

// A model has as few parameters as its layers have ideas; more is an array gone wild.
constexpr int kParametersMax = 1024;
constexpr int kOutputAxesMax = 3;
constexpr int kParameterAxesMax = 8;
constexpr size_t kNameBytesMax = 128;
// The longest part of a plug-in's text in an error.
constexpr size_t kTextBytesMax = 1000;

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(what, "; mend the plug-in"));
}

// The text that a function of the plug-in returned, fit for a line of an error.
absl::Status StatusOf(const char* text) {
  if (text == nullptr) return absl::OkStatus();
  std::string line(absl::string_view(text).substr(0, kTextBytesMax));
  if (!IsUtf8(line)) line = absl::CEscape(line);
  std::replace_if(line.begin(), line.end(), absl::ascii_iscntrl, ' ');
  return absl::InvalidArgumentError(line);
}

bool IsShape(absl::Span<const int64_t> shape) {
  return std::all_of(shape.begin(), shape.end(), [](int64_t extent) { return extent > 0; });
}

absl::StatusOr<model::Shape> ShapeOf(const int64_t* extents, int32_t axes, int32_t axes_max,
                                     absl::string_view what) {
  if (axes < 1 || axes > axes_max || extents == nullptr) {
    return Wrong(absl::StrCat(what, " has ", axes, " axes; it must have 1 to ", axes_max));
  }
  const model::Shape shape(extents, extents + axes);
  if (IsShape(shape)) return shape;
  return Wrong(absl::StrCat(what, " has the shape ", model::ShapeText(shape),
                            "; each extent must be above 0"));
}

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
         });
}

absl::StatusOr<PluginParameter> ParameterOf(const DpPluginParameter& given) {
  const std::string name = given.name == nullptr ? "" : given.name;
  if (!IsName(name)) {
    return Wrong(absl::StrCat("a parameter has the name '", absl::Utf8SafeCEscape(name),
                              "'; it must be of letters, digits, '_' and '-'"));
  }
  const std::string what = absl::StrCat("parameter '", name, "'");
  DP_ASSIGN_OR_RETURN(model::Shape shape,
                      ShapeOf(given.shape, given.axes, kParameterAxesMax, what));
  if (given.initial < DP_PLUGIN_CONSTANT || given.initial > DP_PLUGIN_NORMAL) {
    return Wrong(absl::StrCat(what, " has initial values of type ", given.initial,
                              "; the types are 0 to ", static_cast<int>(DP_PLUGIN_NORMAL)));
  }
  if (!(given.momentum >= 0 && given.momentum <= 1)) {
    return Wrong(absl::StrCat(what, " has the momentum ", given.momentum, "; it must be 0 to 1"));
  }
  using enum PluginParameter::Initial;
  const auto initial = given.initial == DP_PLUGIN_UNIFORM  ? kUniform
                       : given.initial == DP_PLUGIN_NORMAL ? kNormal
                                                           : kConstant;
  return PluginParameter{.name = name,
                         .shape = std::move(shape),
                         .initial = initial,
                         .scale = given.scale,
                         .momentum = given.momentum};
}

absl::StatusOr<std::vector<PluginParameter>> ParametersOf(const DpPluginLayer& layer) {
  const int32_t count = layer.parameter_count;
  if (count < 0 || count > kParametersMax || (count > 0 && layer.parameters == nullptr)) {
    return Wrong(
        absl::StrCat("it has ", count, " parameters; at most ", kParametersMax, " are allowed"));
  }
  std::vector<PluginParameter> parameters;
  std::set<std::string> names;
  for (int32_t i = 0; i < count; ++i) {
    DP_ASSIGN_OR_RETURN(PluginParameter parameter, ParameterOf(layer.parameters[i]));
    if (!names.insert(parameter.name).second) {
      return Wrong(absl::StrCat("two parameters have the name '", parameter.name, "'"));
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

class TableLayer final : public model::PluginLayer {
 public:
  // Takes the layer over, and destroys it.
  explicit TableLayer(const DpPluginLayer& layer) : layer_(layer) {}
  ~TableLayer() override {
    if (layer_.destroy != nullptr) layer_.destroy(layer_.self);
  }
  TableLayer(const TableLayer&) = delete;
  TableLayer& operator=(const TableLayer&) = delete;

  absl::Status Check() {
    if (layer_.forward == nullptr || layer_.backward == nullptr || layer_.destroy == nullptr) {
      return Wrong("it lacks forward, backward or destroy");
    }
    DP_ASSIGN_OR_RETURN(out_,
                        ShapeOf(layer_.output, layer_.output_axes, kOutputAxesMax, "its output"));
    DP_ASSIGN_OR_RETURN(parameters_, ParametersOf(layer_));
    return absl::OkStatus();
  }

  const model::Shape& out() const override { return out_; }
  const std::vector<PluginParameter>& parameters() const override { return parameters_; }
  absl::Status Forward(const DpPluginForward& batch) override {
    return StatusOf(layer_.forward(layer_.self, &batch));
  }
  absl::Status Backward(const DpPluginBackward& batch) override {
    return StatusOf(layer_.backward(layer_.self, &batch));
  }

 private:
  const DpPluginLayer layer_;
  model::Shape out_;
  std::vector<PluginParameter> parameters_;
};

int32_t TypeOf(PluginValue::Type type) {
  switch (type) {
    case PluginValue::Type::kFlag:
      return DP_PLUGIN_FLAG;
    case PluginValue::Type::kNumber:
      return DP_PLUGIN_NUMBER;
    case PluginValue::Type::kText:
      return DP_PLUGIN_TEXT;
    case PluginValue::Type::kList:
      return DP_PLUGIN_LIST;
    case PluginValue::Type::kMapping:
      return DP_PLUGIN_MAPPING;
    case PluginValue::Type::kNull:
      break;
  }
  return DP_PLUGIN_NULL;
}

class TableKind final : public model::PluginKind {
 public:
  TableKind(const DpPluginKind& kind, std::string library)
      : kind_(kind), library_(std::move(library)) {}

  absl::StatusOr<std::unique_ptr<model::PluginLayer>> Make(
      const std::vector<PluginValue>& config, const model::PluginPlace& place) const override {
    std::vector<DpPluginValue> values;
    for (const PluginValue& value : config) {
      values.push_back({.path = value.path.c_str(),
                        .type = TypeOf(value.type),
                        .number = value.number,
                        .text = value.text.c_str()});
    }
    const DpPluginPlace given = {.config = values.data(),
                                 .config_size = static_cast<int64_t>(values.size()),
                                 .input = place.in.data(),
                                 .input_axes = static_cast<int32_t>(place.in.size()),
                                 .batch_size = place.batch_size,
                                 .threads = place.threads,
                                 .seed = place.seed};
    DpPluginLayer made = {};
    if (const absl::Status status = StatusOf(kind_.make(&given, &made)); !status.ok()) {
      return Named(status);
    }
    auto layer = std::make_unique<TableLayer>(made);
    if (const absl::Status status = layer->Check(); !status.ok()) return Named(status);
    return layer;
  }

 private:
  absl::Status Named(const absl::Status& status) const {
    return absl::InvalidArgumentError(
        absl::StrCat("'", kind_.name, "' of library '", library_, "': ", status.message()));
  }

  const DpPluginKind& kind_;
  const std::string library_;
};

}  // namespace

std::shared_ptr<const model::PluginKind> KindOf(const DpPluginKind& kind,
                                                const std::string& library) {
  return std::make_shared<TableKind>(kind, library);
}

}  // namespace dp::engine
