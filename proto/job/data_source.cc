#include "proto/job/data_source.h"

namespace dp {
namespace {

data::ArrayFiles FilesOf(const v1::ArrayFilesSpec& spec, const v1::ModelSpec& model) {
  return {.inputs = spec.inputs(),
          .labels = spec.labels(),
          .targets = spec.targets(),
          .two_axes = TakesTwoAxes(model)};
}

data::CsvFiles CsvOf(const v1::CsvSpec& spec,
                     const google::protobuf::RepeatedPtrField<std::string>& paths) {
  data::CsvFiles files{.paths = {paths.begin(), paths.end()},
                       .inputs = {spec.inputs().begin(), spec.inputs().end()},
                       .labels = spec.labels(),
                       .targets = {spec.targets().begin(), spec.targets().end()}};
  if (spec.has_header()) files.header = spec.header();
  if (!spec.delimiter().empty()) files.delimiter = spec.delimiter()[0];
  return files;
}

}  // namespace

bool TakesTwoAxes(const v1::ModelSpec& model) {
  for (const v1::LayerSpec& layer : model.layers()) {
    switch (layer.kind_case()) {
      case v1::LayerSpec::kConv1D:
      case v1::LayerSpec::kPositions:
      case v1::LayerSpec::kAttention:
      case v1::LayerSpec::kCausalAttention:
        return true;
      case v1::LayerSpec::kConv2D:
      case v1::LayerSpec::kMaxPool2D:
      case v1::LayerSpec::kAvgPool2D:
      case v1::LayerSpec::kAdaptiveAvgPool2D:
      case v1::LayerSpec::kFlatten:  // what follows has one axis
      case v1::LayerSpec::kPlugin:   // nothing is known of it here
        return false;
      default:
        break;
    }
  }
  return false;
}

std::optional<data::SampleSource> SourceOf(const v1::DataSpec& spec, const v1::ModelSpec& model) {
  const std::string& kind = spec.kind();
  if (kind.empty() || kind == "images") return data::IdxSource{spec.dir()};
  if (kind == "cifar10") return data::CifarSource{spec.dir(), data::Cifar::k10};
  if (kind == "cifar100") return data::CifarSource{spec.dir(), data::Cifar::k100};
  if (kind == "arrays") {
    return data::ArraySource{FilesOf(spec.arrays().train(), model),
                             FilesOf(spec.arrays().test(), model)};
  }
  if (kind == "csv") {
    return data::CsvSource{CsvOf(spec.csv(), spec.train()), CsvOf(spec.csv(), spec.test())};
  }
  return std::nullopt;
}

}  // namespace dp
