#include "worker/trainer/checkpoint/checkpoint_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status.h"
#include "google/protobuf/util/json_util.h"
#include "proto/convert/json_options.h"
#include "proto/weights/safetensors.h"
#include "worker/trainer/checkpoint/durable_file.h"
#include "worker/trainer/checkpoint/sha256.h"
#include "worker/trainer/checkpoint/state_dict.h"
#include "worker/trainer/fault_point.h"

namespace dp::trainer {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;

// A directory that is being written. The destructor removes whatever has not been renamed to its
// place.
class PartialDirectory {
 public:
  explicit PartialDirectory(std::string path) : path_(std::move(path)) {}
  ~PartialDirectory() {
    std::error_code unknown;  // the next attempt or generation removes it
    fs::remove_all(path_, unknown);
  }
  PartialDirectory(const PartialDirectory&) = delete;
  PartialDirectory& operator=(const PartialDirectory&) = delete;

  absl::Status Create() const {
    std::error_code error;
    fs::remove_all(path_, error);
    if (!error) fs::create_directory(path_, error);
    return error ? FileError(error, "create", path_) : absl::OkStatus();
  }

  absl::Status Write(const std::string& name, const std::string& contents) {
    bytes_ += static_cast<int64_t>(contents.size());
    return WriteAndSync(absl::StrCat(path_, "/", name), contents);
  }

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }

 private:
  const std::string path_;
  int64_t bytes_ = 0;
};

absl::Status WriteTensors(const std::string& name, const std::string& encoded,
                          PartialDirectory& directory, v1::CheckpointManifest& manifest) {
  v1::ManifestFile* file = manifest.add_files();
  file->set_name(name);
  file->set_bytes(static_cast<int64_t>(encoded.size()));
  file->set_sha256(Sha256Hex(encoded));
  return directory.Write(name, encoded);
}

std::string Json(const v1::CheckpointManifest& manifest) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  PrintDefaults(&options);
  std::string json;
  DP_CHECK(google::protobuf::util::MessageToJsonString(manifest, &json, options).ok());
  return json;
}

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, " is damaged: ", what));
}

// An optimizer has at most one velocity per tensor, so a velocity takes the tensor's name. Other
// arrays are told apart by a prefix.
std::string PrefixOf(const std::string& array) {
  return array == "velocity" ? "" : absl::StrCat(array, ".");
}

std::vector<NamedTensor> OptimizerTensors(const TrainingState& state,
                                          const engine::ParameterLayout& layout) {
  std::vector<NamedTensor> tensors;
  for (const OptimizerArray& array : state.optimizer) {
    for (NamedTensor& tensor : StateDict(layout, array.values)) {
      tensor.name = PrefixOf(array.name) + tensor.name;
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

// Copies each tensor to its place; gaps of the layout stay zero.
absl::Status Scatter(const std::string& path, absl::string_view encoded, const std::string& prefix,
                     const engine::ParameterLayout& layout, std::vector<float>& values) {
  DP_ASSIGN_OR_RETURN(const auto tensors, DecodeSafetensors(encoded));
  values.assign(static_cast<size_t>(layout.size), 0.0f);
  for (const engine::Parameter& parameter : layout.parameters) {
    const auto tensor = tensors.find(prefix + parameter.name);
    const size_t bytes = static_cast<size_t>(parameter.size) * sizeof(float);
    if (tensor == tensors.end() || tensor->second.type != "F32" ||
        tensor->second.data.size() != bytes) {
      return Damaged(
          path, absl::StrCat("it has no tensor ", prefix, parameter.name, " of ", bytes, " bytes"));
    }
    std::memcpy(&values[static_cast<size_t>(parameter.offset)], tensor->second.data.data(), bytes);
  }
  return absl::OkStatus();
}

}  // namespace

std::string NameOfPeersArray(int rank, absl::string_view array) {
  return absl::StrCat("rank", rank, ".", array);
}

std::string JobLabel(JobId job, absl::Time submitted_at) {
  return absl::StrCat("job-", job.value(), "-",
                      absl::FormatTime("%Y%m%dT%H%M%E3SZ", submitted_at, absl::UTCTimeZone()));
}

std::string JobDirectory(const std::string& dir, JobId job, absl::Time submitted_at) {
  return absl::StrCat(dir, "/", JobLabel(job, submitted_at));
}

std::string CheckpointName::ToString() const {
  const std::string name = absl::StrCat("step-", step, "-generation-", generation);
  return partial ? absl::StrCat(".", name, ".partial") : name;
}

std::optional<CheckpointName> CheckpointName::Parse(absl::string_view name) {
  CheckpointName parsed;
  const absl::string_view whole = name;
  parsed.partial = absl::ConsumePrefix(&name, ".") && absl::ConsumeSuffix(&name, ".partial");
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '-');
  const bool good = parts.size() == 4 && parts[0] == "step" && parts[2] == "generation" &&
                    absl::SimpleAtoi(parts[1], &parsed.step) &&
                    absl::SimpleAtoi(parts[3], &parsed.generation);
  // Numbers have other forms, too, such as "+7", which no checkpoint has.
  if (!good || parsed.ToString() != whole) return std::nullopt;
  return parsed;
}

absl::StatusOr<WrittenCheckpoint> WriteCheckpoint(const std::string& job_directory,
                                                  const TrainingState& state,
                                                  const engine::ParameterLayout& layout) {
  CheckpointName name{state.manifest.step(), state.manifest.generation()};
  const std::string path = absl::StrCat(job_directory, "/", name.ToString());
  name.partial = true;
  PartialDirectory partial(absl::StrCat(job_directory, "/", name.ToString()));
  DP_RETURN_IF_ERROR(partial.Create());
  v1::CheckpointManifest manifest = state.manifest;
  manifest.set_format(kFormat);
  DP_RETURN_IF_ERROR(WriteTensors(
      kModelFile, EncodeSafetensors(StateDict(layout, state.values), {}, state.description),
      partial, manifest));
  DP_RETURN_IF_ERROR(WriteTensors(
      kOptimizerFile, EncodeSafetensors(OptimizerTensors(state, layout)), partial, manifest));
  const std::string json = Json(manifest);
  DP_RETURN_IF_ERROR(partial.Write(kManifestFile, json));
  DP_RETURN_IF_ERROR(SyncDirectory(partial.path()));
  ReachFaultPoint("write", state.manifest.step());
  DP_RETURN_IF_ERROR(RenameDurably(partial.path(), path));
  return WrittenCheckpoint{path, Sha256Hex(json), partial.bytes()};
}

absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& path,
                                                    const std::string& sha256) {
  const std::string file = absl::StrCat(path, "/", kManifestFile);
  DP_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(file, kManifestBytesMax));
  if (Sha256Hex(json) != sha256) return Damaged(file, "its hash is not the one on record");
  return ParseManifest(file, json);
}

absl::StatusOr<v1::CheckpointManifest> ParseManifest(const std::string& file,
                                                     const std::string& json) {
  v1::CheckpointManifest manifest;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // a later release may have added fields
  if (!google::protobuf::util::JsonStringToMessage(json, &manifest, options).ok()) {
    return Damaged(file, "it is no manifest");
  }
  if (manifest.format() == kFormat) return manifest;
  return absl::UnimplementedError(
      absl::StrCat(file, " has format ", manifest.format(), "; this release reads ", kFormat));
}

absl::StatusOr<std::string> ReadCheckpointFile(const std::string& directory,
                                               const v1::CheckpointManifest& manifest,
                                               absl::string_view name) {
  const std::string path = absl::StrCat(directory, "/", name);
  for (const v1::ManifestFile& file : manifest.files()) {
    if (file.name() != name) continue;
    DP_ASSIGN_OR_RETURN(std::string contents, ReadWholeFile(path, file.bytes()));
    if (Sha256Hex(contents) != file.sha256()) {
      return Damaged(path, "its hash is not the manifest's");
    }
    return contents;
  }
  return Damaged(path, "the manifest does not know it");
}

absl::StatusOr<TrainingState> ReadTensors(const std::string& path,
                                          const v1::CheckpointManifest& manifest,
                                          const engine::ParameterLayout& layout,
                                          const std::vector<std::string>& arrays) {
  TrainingState state{.manifest = manifest};
  DP_ASSIGN_OR_RETURN(const std::string model, ReadCheckpointFile(path, manifest, kModelFile));
  DP_RETURN_IF_ERROR(Scatter(path, model, "", layout, state.values));
  DP_ASSIGN_OR_RETURN(const std::string optimizer,
                      ReadCheckpointFile(path, manifest, kOptimizerFile));
  for (const std::string& array : arrays) {
    state.optimizer.push_back({.name = array, .values = {}});
    DP_RETURN_IF_ERROR(
        Scatter(path, optimizer, PrefixOf(array), layout, state.optimizer.back().values));
  }
  return state;
}

}  // namespace dp::trainer
