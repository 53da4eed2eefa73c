#include "worker/trainer/inference/trained_weights.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "proto/weights/trained_model.h"
#include "worker/engine/device/device.h"
#include "worker/trainer/checkpoint/checkpoint_files.h"
#include "worker/trainer/checkpoint/durable_file.h"
#include "worker/trainer/checkpoint/sha256.h"

namespace dp::trainer {
namespace {

// As of initial weights: a larger file is a mistake.
constexpr int64_t kWeightsBytesMax = int64_t{1} << 38;

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return status.ok() ? status
                     : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

// The tensors of the average have a prefix, and lie among the optimizer's arrays.
std::map<std::string, EncodedTensor> AverageOf(std::map<std::string, EncodedTensor> arrays) {
  std::map<std::string, EncodedTensor> average;
  for (auto& [name, tensor] : arrays) {
    absl::string_view of = name;
    if (!absl::ConsumePrefix(&of, absl::StrCat(engine::kAverageName, "."))) continue;
    average[std::string(of)] = std::move(tensor);
  }
  return average;
}

bool TakesAverage(const v1::TrainSpec& train) {
  return train.has_ema() && (!train.ema().has_evaluate() || train.ema().evaluate());
}

class WeightsLoader {
 public:
  explicit WeightsLoader(const v1::TrainedWeights& weights) : weights_(weights) {
    loaded_.path = weights.path();
  }

  absl::StatusOr<LoadedWeights> Load() && {
    std::error_code error;
    DP_RETURN_IF_ERROR(std::filesystem::is_directory(loaded_.path, error) ? LoadCheckpoint()
                                                                          : LoadFile());
    return std::move(loaded_);
  }

 private:
  absl::Status LoadFile() {
    DP_ASSIGN_OR_RETURN(std::string file, ReadWholeFile(loaded_.path, kWeightsBytesMax));
    if (!weights_.sha256().empty() && Sha256Hex(file) != weights_.sha256()) {
      return absl::DataLossError(
          absl::StrCat(loaded_.path,
                       " is not the file that the job wrote: its SHA-256 differs; "
                       "give the file itself to take it all the same"));
    }
    DP_RETURN_IF_ERROR(InFile(loaded_.path, ChooseJob(file)));
    return TakeTensors(std::move(file));
  }

  absl::Status LoadCheckpoint() {
    DP_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, Manifest());
    DP_ASSIGN_OR_RETURN(std::string file, ReadCheckpointFile(loaded_.path, manifest, kModelFile));
    DP_RETURN_IF_ERROR(InFile(loaded_.path, ChooseJob(file)));
    const bool average = TakesAverage(loaded_.job.train());
    if (average) {
      DP_ASSIGN_OR_RETURN(file, ReadCheckpointFile(loaded_.path, manifest, kOptimizerFile));
    }
    DP_RETURN_IF_ERROR(TakeTensors(std::move(file)));
    if (average) loaded_.tensors = AverageOf(std::move(loaded_.tensors));
    return absl::OkStatus();
  }

  absl::StatusOr<v1::CheckpointManifest> Manifest() const {
    if (!weights_.sha256().empty()) return ReadManifest(loaded_.path, weights_.sha256());
    const std::string path = absl::StrCat(loaded_.path, "/", kManifestFile);
    DP_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(path, kManifestBytesMax));
    return ParseManifest(path, json);
  }

  // The caller's job takes precedence over the description.
  absl::Status ChooseJob(absl::string_view file) {
    DP_ASSIGN_OR_RETURN(const SafetensorsMetadata texts, ReadSafetensorsMetadata(file));
    DP_ASSIGN_OR_RETURN(loaded_.description, ModelIn(texts));
    if (weights_.has_job()) {
      loaded_.job = weights_.job();
      TakeColumns();
    } else if (loaded_.description) {
      loaded_.job = JobOf(*loaded_.description);
    } else {
      return absl::InvalidArgumentError(
          "does not say which model it has, as files of other programs and earlier releases; give "
          "the job file of the model with --model");
    }
    return absl::OkStatus();
  }

  // The columns that the job left to its first file.
  void TakeColumns() {
    v1::DataSpec& data = *loaded_.job.mutable_train()->mutable_data();
    if (data.kind() != "csv" || !data.csv().inputs().empty() || !loaded_.description) return;
    *data.mutable_csv()->mutable_inputs() = loaded_.description->train().data().csv().inputs();
  }

  absl::Status TakeTensors(std::string file) {
    loaded_.file = std::make_unique<const std::string>(std::move(file));
    auto tensors = DecodeSafetensors(*loaded_.file);
    if (!tensors.ok()) return InFile(loaded_.path, tensors.status());
    loaded_.tensors = *std::move(tensors);
    return absl::OkStatus();
  }

  const v1::TrainedWeights& weights_;
  LoadedWeights loaded_;
};

}  // namespace

absl::StatusOr<LoadedWeights> LoadWeights(const v1::TrainedWeights& weights) {
  return WeightsLoader(weights).Load();
}

}  // namespace dp::trainer
