#include "proto/job/data_source.h"

namespace dp {
namespace {

data::ArrayFiles FilesOf(const v1::ArrayFilesSpec& spec) {
  return {.inputs = spec.inputs(), .labels = spec.labels(), .targets = spec.targets()};
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

std::optional<data::SampleSource> SourceOf(const v1::DataSpec& spec) {
  const std::string& kind = spec.kind();
  if (kind.empty() || kind == "images") return data::IdxSource{spec.dir()};
  if (kind == "cifar10") return data::CifarSource{spec.dir(), data::Cifar::k10};
  if (kind == "cifar100") return data::CifarSource{spec.dir(), data::Cifar::k100};
  if (kind == "arrays") {
    return data::ArraySource{FilesOf(spec.arrays().train()), FilesOf(spec.arrays().test())};
  }
  if (kind == "csv") {
    return data::CsvSource{CsvOf(spec.csv(), spec.train()), CsvOf(spec.csv(), spec.test())};
  }
  return std::nullopt;
}

}  // namespace dp
