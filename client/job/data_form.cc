#include "client/job/data_form.h"

#include "base/data/idx_file.h"
#include "base/data/image_folder.h"
#include "base/overloaded.h"
#include "proto/job/data_source.h"

namespace dp::client {
namespace {

using Form = std::optional<SampleForm>;

Form FormOfShape(const absl::StatusOr<model::Shape>& shape, int classes) {
  if (!shape.ok()) return std::nullopt;
  return SampleForm{.shape = *shape, .classes = classes};
}

Form FormOfIdx(const std::string& dir) {
  return FormOfShape(data::ReadIdxShape(dir), data::ReadIdxClasses(dir).value_or(0));
}

// Numbers to predict, where each sample has some of them.
Form WithTargets(Form form, const absl::StatusOr<model::Shape>& targets) {
  if (!form || !targets.ok()) return std::nullopt;
  form->targets = *targets;
  return form;
}

absl::StatusOr<model::Shape> ShapeOfRows(const absl::StatusOr<data::Rows>& rows) {
  if (!rows.ok()) return rows.status();
  return rows->shape();
}

// Whether the file has rows and columns alone.
bool HasTwoAxes(data::ArrayFiles files) {
  files.two_axes = true;
  const auto shape = data::ReadArrayShape(files);
  return shape.ok() && shape->size() == 2;
}

Form AnswersOfArrays(const data::ArrayFiles& files) {
  if (!files.targets.empty()) {
    return WithTargets(FormOfShape(data::ReadArrayShape(files), 0),
                       ShapeOfRows(data::ReadNpy(files.targets)));
  }
  const auto rows = data::ReadNpy(files.labels);
  int classes = 0;
  if (rows.ok() && rows->elements() == 1) {
    const auto labels = data::LabelsFrom(*rows, files.labels);
    if (labels.ok()) classes = labels->classes();
  }
  return FormOfShape(data::ReadArrayShape(files), classes);
}

Form FormOfArrays(const data::ArrayFiles& files) {
  Form form = AnswersOfArrays(files);
  if (form) form->two_axes = HasTwoAxes(files);
  return form;
}

Form FormOfTable(const data::CsvFiles& files) {
  if (files.paths.empty()) return std::nullopt;
  const Form form = FormOfShape(data::ReadCsvShape(files), 0);
  if (files.targets.empty()) return form;
  return WithTargets(form, model::Shape{static_cast<int64_t>(files.targets.size())});
}

Form FormOfSource(const data::SampleSource& source) {
  return std::visit(
      Overloaded{
          [](const data::IdxSource& files) { return FormOfIdx(files.dir); },
          [](const data::CifarSource& files) {
            return Form(SampleForm{.shape = {3, 32, 32},
                                   .classes = files.kind == data::Cifar::k10 ? 10 : 100});
          },
          [](const data::ArraySource& files) { return FormOfArrays(files.train); },
          [](const data::CsvSource& files) { return FormOfTable(files.train); },
      },
      source);
}

Form FormOfFolder(const v1::DataSpec& spec) {
  if (spec.size_size() != 2) return std::nullopt;
  const auto classes = data::ListClasses(spec.dir());
  return SampleForm{.shape = {spec.channels(), spec.size(0), spec.size(1)},
                    .classes = classes.ok() ? static_cast<int>(classes->size()) : 0};
}

}  // namespace

std::optional<SampleForm> FormOf(const v1::DataSpec& data) {
  if (data.kind() == "imageFolder") return FormOfFolder(data);
  if (data.kind() == "synthetic") {
    return SampleForm{.shape = {data.synthetic().shape().begin(), data.synthetic().shape().end()},
                      .classes = data.classes()};
  }
  const std::optional<data::SampleSource> source = SourceOf(data);
  return source ? FormOfSource(*source) : std::nullopt;
}

}  // namespace dp::client
