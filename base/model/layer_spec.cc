#include "base/model/layer_spec.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace dp::model {

std::string DefaultName(const LayerKind& kind, size_t position) {
  std::string name;
  for (const char c : KindName(kind)) {
    if (absl::ascii_isupper(c)) name += '_';
    name += absl::ascii_tolower(c);
  }
  return absl::StrCat(name, position);
}

std::vector<LayerSpec> MlpPreset() {
  return {
      {"", Flatten{}}, {"", Linear{.out = 256}}, {"", Relu{}}, {"", Linear{.out = 128}},
      {"", Relu{}},    {"", Linear{.out = 10}},
  };
}

std::vector<LayerSpec> CnnPreset() {
  return {
      {"", Conv2d{.out = 16, .kernel = 3, .padding = 1}},
      {"", Relu{}},
      {"", MaxPool2d{.kernel = 2}},
      {"", Conv2d{.out = 32, .kernel = 3, .padding = 1}},
      {"", Relu{}},
      {"", MaxPool2d{.kernel = 2}},
      {"", Flatten{}},
      {"", Linear{.out = 128}},
      {"", Relu{}},
      {"", Linear{.out = 10}},
  };
}

absl::StatusOr<std::vector<LayerSpec>> Preset(absl::string_view name) {
  if (name == "mlp") return MlpPreset();
  if (name == "cnn") return CnnPreset();
  if (name == "gpt") return Gpt({.blocks = 4, .heads = 4, .features = 128});
  if (name == "gpt2-124m") {
    return Gpt({.blocks = 12, .heads = 12, .features = 768, .vocabulary = 50257});
  }
  return absl::NotFoundError(
      absl::StrCat("no preset '", name, "'; there are 'mlp' and 'cnn', 'gpt' and 'gpt2-124m'"));
}

}  // namespace dp::model
