#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/id.h"
#include "dp/v1/parameters.pb.h"
#include "server/parameters/core/gradient_table.h"
#include "server/parameters/parameter_store.h"

// The state of a table, as a version of its job's set. Blocking; any thread.

namespace dp::server {

// A state on its way to the disk.
struct TableVersion {
  JobId job;
  Generation generation;
  v1::TableSettings settings;
  TableOptions options;
  TableProgress progress;
  std::shared_ptr<const std::vector<float>> values;
  std::vector<std::vector<float>> arrays;
};

// A state that was read.
struct LoadedTable {
  GradientTable::State state;  // as it was written, for the ranks of that time
  v1::ParameterVersion version;
};

// Returns once the version is durable. Errors: those of ParameterStore::Begin and Push.
absl::StatusOr<v1::ParameterVersion> WriteTable(ParameterStore& store, const TableVersion& version);

// The state that was published last; nullopt: there is none. Errors: DataLoss; FailedPrecondition
// it was made with other settings.
absl::StatusOr<std::optional<LoadedTable>> ReadLatestTable(const ParameterStore& store, JobId job,
                                                           const v1::TableSettings& settings,
                                                           const TableOptions& options);

}  // namespace dp::server
