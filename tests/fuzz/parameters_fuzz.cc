// Versions of parameters: their files, the tensors of a push, and the settings of a table. A file
// that is read has a chunk for each of its bytes, and its arrays. Accepted tensors have the bytes
// that their shapes need, and accepted settings a size that no sum overflows.
//
// The first byte chooses: a whole file; the description of one, behind a byte for the size of its
// data; a version; settings.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/checksum/crc32c.h"
#include "base/limits.h"
#include "server/parameters/parameter_file.pb.h"
#include "server/parameters/table_settings.h"
#include "server/parameters/tensor_check.h"
#include "server/parameters/version_file.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::parameters {
namespace {

using dp::parameters::StoredVersion;

void CheckFile(absl::string_view bytes) {
  const MemoryFile file(bytes);
  const auto reader = server::VersionReader::Open(file.path());
  if (!reader.ok()) return;
  const uint64_t of_tensors = reader->description().version().bytes();
  DP_CHECK(of_tensors <= bytes.size());
  uint64_t read = 0;
  for (int i = 0; i < reader->chunks(); ++i) {
    const auto chunk = reader->Chunk(i, /*check=*/false);
    DP_CHECK(chunk.ok());
    read += chunk->size();
    (void)reader->Chunk(i, /*check=*/true);  // may be damaged
  }
  DP_CHECK(read == of_tensors);
  DP_CHECK(reader->description().table().array_bytes() <= bytes.size());
  std::string arrays(reader->description().table().array_bytes(), '\0');
  (void)reader->ReadArrays(absl::MakeSpan(arrays.data(), arrays.size()));
}

std::string LittleEndian(uint64_t number, int bytes) {
  std::string text;
  for (int byte = 0; byte < bytes; ++byte) text.push_back(static_cast<char>(number >> (8 * byte)));
  return text;
}

// A file whose end fits whatever the description says.
std::string FileOf(absl::string_view description, size_t data_bytes) {
  return absl::StrCat("dpparam1", std::string(data_bytes, '\1'), description,
                      LittleEndian(description.size(), 8),
                      LittleEndian(ExtendCrc32c(0, description), 4), "dppe");
}

void CheckVersion(const std::string& bytes) {
  v1::ParameterVersion version;
  if (!version.ParseFromString(bytes)) return;
  (void)server::CheckMetadata(version);
  const auto sum = server::CheckTensors(version);
  if (!sum.ok()) return;
  uint64_t expected = 0;
  for (const v1::ParameterTensor& tensor : version.tensors()) {
    DP_CHECK(!tensor.name().empty() && tensor.name().size() <= kTensorNameBytesMax);
    expected += tensor.bytes();
  }
  DP_CHECK(*sum == expected);
}

void CheckSettings(const std::string& bytes) {
  v1::TableSettings settings;
  if (!settings.ParseFromString(bytes)) return;
  const auto options = server::OptionsOf(settings);
  if (!options.ok()) return;
  DP_CHECK(server::CheckSame(settings, settings).ok());
  const uint64_t values = static_cast<uint64_t>(settings.size()) * sizeof(float);
  DP_CHECK(server::MemoryOf(*options) >= values);
}

StoredVersion Description() {
  StoredVersion stored;
  stored.mutable_version()->set_bytes(8);
  v1::ParameterTensor* const tensor = stored.mutable_version()->add_tensors();
  tensor->set_name("w");
  tensor->set_type("F32");
  tensor->add_shape(2);
  tensor->set_bytes(8);
  stored.add_chunk_crc32c(ExtendCrc32c(0, std::string(8, '\1')));
  stored.set_request_id("a");
  return stored;
}

v1::TableSettings Settings() {
  v1::TableSettings settings;
  settings.set_mode(v1::TABLE_MODE_SYNC);
  settings.set_ranks(2);
  settings.set_publish_every(3);
  settings.set_size(2);
  settings.set_tail(2);
  v1::TableParameter* const parameter = settings.add_parameters();
  parameter->set_name("w");
  parameter->add_shape(2);
  parameter->set_size(2);
  parameter->set_learning_rate_factor(1);
  settings.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  settings.mutable_schedule()->set_steps_of_epoch(10);
  settings.mutable_schedule()->set_steps_total(100);
  return settings;
}

}  // namespace

void Run(absl::string_view input) {
  switch (TakeChoice(&input) % 4) {
    case 0:
      return CheckFile(input);
    case 1: {
      const size_t data_bytes = TakeChoice(&input);
      return CheckFile(FileOf(input, data_bytes));
    }
    case 2:
      return CheckVersion(std::string(input));
    default:
      return CheckSettings(std::string(input));
  }
}

std::vector<std::string> Seeds() {
  const std::string description = Description().SerializeAsString();
  return {Chosen(0, FileOf(description, 8)), Chosen(1, Chosen(8, description)),
          Chosen(2, Description().version().SerializeAsString()),
          Chosen(3, Settings().SerializeAsString())};
}

}  // namespace dp::fuzz::parameters
