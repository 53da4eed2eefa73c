#pragma once

#include "CLI/CLI.hpp"
#include "base/store/key_values.h"
#include "server/shell/log_store.h"

namespace dp::server {

// The flags of dp-coordinator for what its clients may have it keep. Both outlive the parsing. What
// is no number, or out of range, is a CLI::ValidationError with the range.

// What the store of one job may hold.
void AddStoreLimits(CLI::App& app, KeyValueLimits& limits);

// What logs may take of the disk.
void AddLogLimits(CLI::App& app, LogLimits& limits);

}  // namespace dp::server
