#include "server/parameters/table_version.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checksum/crc32c.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/parameters/table_settings.h"

namespace dp::server {
namespace {

absl::string_view BytesOf(absl::Span<const float> floats) {
  return {reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float)};
}

// The values of all parameters, without the gaps between them, chunk by chunk.
class PackedValues {
 public:
  PackedValues(const engine::ParameterLayout& layout, absl::Span<const float> values)
      : layout_(layout), values_(values) {}

  // Fills `chunk`; empty at the end.
  void Next(std::string& chunk) {
    chunk.clear();
    while (chunk.size() < kParameterChunkBytes && at_ < layout_.parameters.size()) {
      const engine::Parameter& parameter = layout_.parameters[at_];
      const absl::string_view rest = BytesOf(values_.subspan(static_cast<size_t>(parameter.offset),
                                                             static_cast<size_t>(parameter.size)))
                                         .substr(offset_);
      const absl::string_view part = rest.substr(0, kParameterChunkBytes - chunk.size());
      chunk.append(part.data(), part.size());
      offset_ += part.size();
      if (part.size() < rest.size()) continue;
      ++at_;
      offset_ = 0;
    }
  }

 private:
  const engine::ParameterLayout& layout_;
  const absl::Span<const float> values_;
  size_t at_ = 0;      // the parameter
  size_t offset_ = 0;  // bytes within it
};

// The reverse: writes chunks to where the parameters lie.
class UnpackedValues {
 public:
  UnpackedValues(const engine::ParameterLayout& layout, absl::Span<float> values)
      : layout_(layout), values_(values) {}

  void Add(absl::string_view chunk) {
    while (!chunk.empty() && at_ < layout_.parameters.size()) {
      const engine::Parameter& parameter = layout_.parameters[at_];
      const size_t bytes = static_cast<size_t>(parameter.size) * sizeof(float);
      const absl::string_view part = chunk.substr(0, bytes - offset_);
      char* const place = reinterpret_cast<char*>(values_.data() + parameter.offset);
      std::memcpy(place + offset_, part.data(), part.size());
      chunk.remove_prefix(part.size());
      offset_ += part.size();
      if (offset_ < bytes) return;
      ++at_;
      offset_ = 0;
    }
  }

 private:
  const engine::ParameterLayout& layout_;
  const absl::Span<float> values_;
  size_t at_ = 0;
  size_t offset_ = 0;
};

v1::ParameterVersion DescriptionOf(const engine::ParameterLayout& layout) {
  v1::ParameterVersion version;
  for (const engine::Parameter& parameter : layout.parameters) {
    v1::ParameterTensor* const tensor = version.add_tensors();
    tensor->set_name(parameter.name);
    tensor->set_type("F32");
    tensor->mutable_shape()->Assign(parameter.shape.begin(), parameter.shape.end());
    tensor->set_bytes(static_cast<uint64_t>(parameter.size) * sizeof(float));
  }
  return version;
}

parameters::StoredTable StoredOf(const TableVersion& version) {
  parameters::StoredTable table;
  *table.mutable_settings() = version.settings;
  *table.mutable_state() = ToProto(version.progress, version.progress);
  table.mutable_pushed()->Assign(version.progress.pushed.begin(), version.progress.pushed.end());
  table.set_training_steps(version.progress.training_steps);
  table.set_gradients_since(version.progress.gradients_since);
  const std::vector<std::string> names = ArrayNames(version.options.optimizer);
  table.mutable_arrays()->Assign(names.begin(), names.end());
  return table;
}

// The optimizer's arrays, which lie one behind the other.
absl::StatusOr<std::vector<std::vector<float>>> ReadArrays(const VersionReader& reader,
                                                           const TableOptions& options) {
  const std::vector<std::string> names = ArrayNames(options.optimizer);
  const parameters::StoredTable& stored = reader.description().table();
  if (!std::equal(names.begin(), names.end(), stored.arrays().begin(), stored.arrays().end())) {
    return absl::DataLossError(absl::StrCat("version ", reader.description().version().version(),
                                            " lacks the arrays of the optimizer"));
  }
  const auto size = static_cast<size_t>(options.layout.size);
  std::vector<float> all(size * names.size());
  DP_RETURN_IF_ERROR(reader.ReadArrays(
      absl::MakeSpan(reinterpret_cast<char*>(all.data()), all.size() * sizeof(float))));
  std::vector<std::vector<float>> arrays;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * size);
    arrays.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
  }
  return arrays;
}

}  // namespace

absl::StatusOr<v1::ParameterVersion> WriteTable(ParameterStore& store,
                                                const TableVersion& version) {
  v1::ParameterVersion description = DescriptionOf(version.options.layout);
  description.set_step(version.progress.steps);
  description.set_generation(version.generation.value());
  uint64_t array_bytes = 0;
  for (const auto& array : version.arrays) array_bytes += array.size() * sizeof(float);
  // Without a request id: no client can name this push, and no push of a client stands for it.
  DP_ASSIGN_OR_RETURN(const auto push, store.Begin({.job = version.job}, description,
                                                   /*request_id=*/"", array_bytes));
  PackedValues packed(version.options.layout, *version.values);
  std::string chunk;
  uint32_t crc = 0;
  for (packed.Next(chunk); !chunk.empty(); packed.Next(chunk)) {
    crc = ExtendCrc32c(crc, chunk);
    DP_RETURN_IF_ERROR(push->Append(chunk, crc));
  }
  for (const auto& array : version.arrays) {
    DP_RETURN_IF_ERROR(push->AppendArrays(BytesOf(array)));
  }
  parameters::StoredTable table = StoredOf(version);
  return push->Finish(&table);
}

absl::StatusOr<std::optional<LoadedTable>> ReadLatestTable(const ParameterStore& store, JobId job,
                                                           const v1::TableSettings& settings,
                                                           const TableOptions& options) {
  const SetKey key = {.job = job};
  const absl::StatusOr<uint64_t> version = store.LatestTable(key);
  if (absl::IsNotFound(version.status())) return std::nullopt;
  DP_RETURN_IF_ERROR(version.status());
  DP_ASSIGN_OR_RETURN(const VersionReader reader, store.Open(key, *version));
  const parameters::StoredTable& stored = reader.description().table();
  DP_RETURN_IF_ERROR(CheckSame(stored.settings(), settings));
  LoadedTable loaded;
  loaded.state.progress = ProgressOf(stored);
  loaded.state.values.resize(static_cast<size_t>(options.layout.size));
  UnpackedValues unpacked(options.layout, absl::MakeSpan(loaded.state.values));
  for (int i = 0; i < reader.chunks(); ++i) {
    DP_ASSIGN_OR_RETURN(const std::string chunk, reader.Chunk(i, /*check=*/true));
    unpacked.Add(chunk);
  }
  DP_ASSIGN_OR_RETURN(loaded.state.arrays, ReadArrays(reader, options));
  loaded.version = reader.description().version();
  loaded.version.clear_tensors();
  return loaded;
}

}  // namespace dp::server
