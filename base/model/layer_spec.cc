#include "base/model/layer_spec.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dp::model {
namespace {

constexpr int kGpt2Vocabulary = 50257;

}  // namespace

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
      {"", Relu{}},    {"", Linear{}},
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
      {"", Linear{}},
  };
}

absl::StatusOr<std::vector<LayerSpec>> Preset(absl::string_view name) {
  using Make = std::vector<LayerSpec> (*)();
  static constexpr std::pair<absl::string_view, Make> kPresets[] = {
      {"mlp", MlpPreset},
      {"cnn", CnnPreset},
      {"resnet18",
       [] {
         return ResNet({.blocks = {2, 2, 2, 2}});
       }},
      {"resnet34",
       [] {
         return ResNet({.blocks = {3, 4, 6, 3}});
       }},
      {"resnet50",
       [] {
         return ResNet({.blocks = {3, 4, 6, 3}, .bottleneck = true});
       }},
      {"resnet18-cifar",
       [] {
         return ResNet({.blocks = {2, 2, 2, 2}, .small_images = true});
       }},
      {"resnet34-cifar",
       [] {
         return ResNet({.blocks = {3, 4, 6, 3}, .small_images = true});
       }},
      {"resnet50-cifar",
       [] {
         return ResNet({.blocks = {3, 4, 6, 3}, .bottleneck = true, .small_images = true});
       }},
      {"gpt", [] { return Gpt({.blocks = 4, .heads = 4, .features = 128}); }},
      {"gpt2-124m",
       [] {
         return Gpt({12, 12, 768, kGpt2Vocabulary});
       }},
      {"gpt2-355m",
       [] {
         return Gpt({24, 16, 1024, kGpt2Vocabulary});
       }},
      {"gpt2-774m",
       [] {
         return Gpt({36, 20, 1280, kGpt2Vocabulary});
       }},
      {"gpt2-1558m",
       [] {
         return Gpt({48, 25, 1600, kGpt2Vocabulary});
       }},
  };
  std::vector<absl::string_view> names;
  for (const auto& [each, make] : kPresets) {
    if (each == name) return make();
    names.push_back(each);
  }
  return absl::NotFoundError(absl::StrCat("no preset '", absl::Utf8SafeCEscape(name),
                                          "'; there are ", absl::StrJoin(names, ", ")));
}

}  // namespace dp::model
