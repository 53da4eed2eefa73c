#pragma once

#include <cstdint>
#include <optional>

#include "CLI/CLI.hpp"
#include "server/driver/disk_limits.h"
#include "server/logs/log_store.h"
#include "server/parameters/parameter_store.h"
#include "server/program/disk_shares.h"
#include "store/key_values.h"

namespace dp::server {

// The flags of dp-coordinator that limit what clients may store. Both arguments outlive the
// parsing. A value that is no number, or out of range, is a CLI::ValidationError with the range.

// Adds the limits of one job's store.
void AddStoreLimits(CLI::App& app, KeyValueLimits& limits);

// Adds the flag that limits the memory of requests, beside the state.
void AddMemoryLimit(CLI::App& app, uint64_t& memory_max);

// Adds the flag that limits the memory of tables of parameters.
void AddParameterMemory(CLI::App& app, uint64_t& parameter_memory);

// How much one caller, or one host, may take of the coordinator.
struct CallerFlags {
  size_t calls_per_second = 1'000;
  size_t connections_per_host = 4'096;
};
void AddCallerLimits(CLI::App& app, CallerFlags& flags);

// The flags that limit what logs, parameters and jobs take of the disk. A flag that is not given
// follows from the disk's size (DiskShares).
struct DiskFlags {
  std::optional<uint64_t> logs_bytes_max;
  std::optional<uint64_t> job_logs_bytes_max;
  std::optional<uint64_t> parameters_bytes_max;
  std::optional<uint64_t> log_disk_reserve;
  std::optional<uint64_t> disk_reserve;
  std::optional<uint64_t> job_specs_bytes_max;

  ParameterLimits ParametersOn(const DiskShares& shares) const;
  LogLimits LogsOn(const DiskShares& shares) const;
  DiskLimits JournalOn(const DiskShares& shares) const;
};
void AddDiskLimits(CLI::App& app, DiskFlags& flags);

}  // namespace dp::server
