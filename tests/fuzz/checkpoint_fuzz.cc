// Checkpoints: safetensors files, manifests and the names of directories. Tensors that are decoded
// lie within the file, cover it, and are the same when they are encoded again.
//
// The first byte chooses: a whole safetensors file; the header of one, behind a byte for the size
// of its data; a manifest; a name.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/testing/scratch_dir.h"
#include "proto/weights/safetensors.h"
#include "tests/fuzz/seeds.h"
#include "worker/trainer/checkpoint/checkpoint_files.h"
#include "worker/trainer/checkpoint/sha256.h"

namespace dp::fuzz::checkpoint {
namespace {

using namespace dp::trainer;

void CheckTensors(absl::string_view encoded) {
  const auto tensors = DecodeSafetensors(encoded);
  if (!tensors.ok()) return;
  size_t bytes = 0;
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> named;
  values.reserve(tensors->size());
  for (const auto& [name, tensor] : *tensors) {
    bytes += tensor.data.size();
    DP_CHECK(tensor.data.empty() ||
             (tensor.data.data() >= encoded.data() &&
              tensor.data.data() + tensor.data.size() <= encoded.data() + encoded.size()));
    values.emplace_back(tensor.data.size() / sizeof(float));
    if (!tensor.data.empty()) {
      std::memcpy(values.back().data(), tensor.data.data(), tensor.data.size());
    }
    named.push_back({name, tensor.shape, values.back()});
  }
  DP_CHECK(bytes <= encoded.size());
  const std::string written = EncodeSafetensors(named);
  const auto again = DecodeSafetensors(written);
  DP_CHECK(again.ok() && again->size() == tensors->size());
  for (const auto& [name, tensor] : *tensors) {
    const EncodedTensor& other = again->at(name);
    DP_CHECK(other.shape == tensor.shape && other.data == tensor.data);
  }
}

std::string FileOf(absl::string_view header, size_t data_bytes) {
  std::string file;
  for (int byte = 0; byte < 8; ++byte) {
    file.push_back(static_cast<char>(uint64_t{header.size()} >> (8 * byte)));
  }
  return absl::StrCat(file, header, std::string(data_bytes, '\1'));
}

void CheckManifest(absl::string_view json) {
  static const ScratchDir& dir = *new ScratchDir();
  std::ofstream(dir.path() / "manifest.json", std::ios::binary | std::ios::trunc) << json;
  const std::string sha256 = Sha256Hex(json);
  const auto manifest = ReadManifest(dir.path(), sha256);
  if (manifest.ok()) DP_CHECK(manifest->format() == 1);
  DP_CHECK(!ReadManifest(dir.path(), std::string(64, '0')).ok());
}

void CheckName(absl::string_view name) {
  const auto parsed = CheckpointName::Parse(name);
  if (parsed.has_value()) DP_CHECK(parsed->ToString() == name);
}

}  // namespace

void Run(absl::string_view input) {
  switch (TakeChoice(&input) % 4) {
    case 0:
      return CheckTensors(input);
    case 1: {
      const size_t data_bytes = size_t{4} * TakeChoice(&input);
      return CheckTensors(FileOf(input, data_bytes));
    }
    case 2:
      return CheckManifest(input);
    default:
      return CheckName(input);
  }
}

std::vector<std::string> Seeds() {
  constexpr char kHeader[] =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[],"data_offsets":[8,12]},)"
      R"("c":{"dtype":"F32","shape":[0,3],"data_offsets":[12,12]}})";
  return {Chosen(0, FileOf(kHeader, 12)), Chosen(1, Chosen(3, kHeader)),
          Chosen(2, R"({"format": 1, "step": "10", "generation": "2", "files": [
              {"name": "model.safetensors", "bytes": "8", "sha256": "00"}]})"),
          Chosen(3, "step-10-generation-2"), Chosen(3, ".step-10-generation-2.partial")};
}

}  // namespace dp::fuzz::checkpoint
