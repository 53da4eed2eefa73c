#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dp/v1/parameters.pb.h"
#include "server/parameters/core/gradient_table.h"
#include "server/parameters/parameter_file.pb.h"

// Settings and state of tables, as messages and as values of the core. Pure.

namespace dp::server {

// Errors: InvalidArgument names the field.
absl::StatusOr<TableOptions> OptionsOf(const v1::TableSettings& settings);

// The bytes of memory of a table with these options. It holds the values with copies for ranks that
// pull, the optimizer's arrays with one for publishing, and a gradient of every rank.
uint64_t MemoryOf(const TableOptions& options);

// Whether a table with settings `now` can go on from a state with settings `before`: all but the
// number of ranks is equal. Errors: FailedPrecondition.
absl::Status CheckSame(const v1::TableSettings& before, const v1::TableSettings& now);

v1::TableState ToProto(const TableProgress& progress, const TableProgress& durable);
TableProgress ProgressOf(const parameters::StoredTable& stored);

}  // namespace dp::server
