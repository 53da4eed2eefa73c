#include "worker/trainer/model/model_description.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "base/data/csv_file.h"
#include "base/data/image_folder.h"
#include "proto/job/data_source.h"
#include "proto/weights/trained_model.h"

namespace dp::trainer {
namespace {

// The columns that a sample has, where the job leaves them to the file.
std::vector<std::string> InputColumns(const data::CsvFiles& files) {
  std::vector<std::string> inputs;
  for (std::string& column : data::ReadCsvColumns(files).value_or(std::vector<std::string>())) {
    const bool output = column == files.labels || absl::c_linear_search(files.targets, column);
    if (!output) inputs.push_back(std::move(column));
  }
  return inputs;
}

}  // namespace

v1::TrainedModel DescribeTraining(const v1::JobSpec& job, const engine::Dataset& train_set,
                                  int ranks) {
  const v1::DataSpec& data = job.train().data();
  TrainedOn samples{.form = {.shape = train_set.sample_shape(),
                             .classes = train_set.classes(),
                             .targets = train_set.target_shape()},
                    .class_names = {},
                    .ranks = ranks};
  if (data.kind() == "imageFolder") {
    samples.class_names = data::ListClasses(data.dir()).value_or(std::vector<std::string>());
  }
  v1::TrainedModel model = DescribeModel(job, samples);
  if (data.kind() == "csv" && data.csv().inputs().empty()) {
    const auto source = SourceOf(data);
    v1::CsvSpec& csv = *model.mutable_train()->mutable_data()->mutable_csv();
    for (std::string& column : InputColumns(std::get<data::CsvSource>(*source).train)) {
      csv.add_inputs(std::move(column));
    }
  }
  return model;
}

}  // namespace dp::trainer
