#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/data/testing/png_file.h"
#include "base/testing/scratch_dir.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/weights/trained_model.h"
#include "worker/trainer/checkpoint/state_dict.h"
#include "worker/trainer/loop/step_parts.h"
#include "worker/trainer/loop/train_loop.h"
#include "worker/trainer/model/model_description.h"
#include "worker/trainer/model/open_data.h"
#include "worker/trainer/model/rank_model.h"

namespace dp::trainer {

// A job with its data, and the weights that its model begins with, in files of a directory.
class TrainedFiles {
 public:
  // `train` is the section in protobuf's text form; $ stands for the directory. Files that it names
  // are to be written before Write.
  explicit TrainedFiles(std::string train, int ranks = 1) : ranks_(ranks) {
    for (size_t at = train.find('$'); at != std::string::npos; at = train.find('$')) {
      train.replace(at, 1, dir_.path().string());
    }
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("threads_per_rank: 1 ranks: ", ranks, " train {", train, "}"), &job));
  }

  std::string File(const std::string& name) const { return dir_.path() / name; }
  void WriteText(const std::string& name, const std::string& text) const {
    data::WriteFile(File(name), text);
  }

  // Makes the model of one rank, and writes its weights as a training does at its end.
  void Write(bool described = true) {
    plan = *PlanTraining(job);
    data = *OpenDatasets(plan);
    auto made = MakeRankModel(plan, *data.train, rows());
    ASSERT_TRUE(made.ok()) << made.status();
    model = *std::move(made);
    const SafetensorsMetadata texts =
        described ? MetadataOf(DescribeTraining(job, *data.train, ranks_)) : SafetensorsMetadata();
    const auto values = *engine::ReadArray(*model.device, model.values->span());
    WriteText("weights", EncodeSafetensors(StateDict(model.layout, values), {}, texts));
  }

  // The rows of each rank's network.
  int rows() const { return RowsOf(plan, sampler()); }
  engine::GlobalBatchSampler sampler() const {
    return TrainSampler(plan, *data.train, /*rank=*/0, ranks_);
  }

  v1::TrainedWeights weights() const {
    v1::TrainedWeights weights;
    weights.set_path(File("weights"));
    return weights;
  }

  v1::JobSpec job;
  TrainingPlan plan;
  Datasets data;
  RankModel model;

 private:
  const int ranks_;
  ScratchDir dir_;
};

}  // namespace dp::trainer
