#include "server/program/limit_flags.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/program/memory_shares.h"

namespace dp::server {
namespace {

// A message of 20 MiB holds a key and two values, as a compare_set needs.
constexpr uint64_t kKeyBytesMax = 1 << 20;
constexpr uint64_t kValueBytesMax = 8 << 20;
// More than any memory holds, but no count overflows.
constexpr uint64_t kKeysMax = uint64_t{1} << 32;
constexpr uint64_t kStoreBytesMax = uint64_t{1} << 40;
// More than a coordinator can answer, and more than a system has descriptors.
constexpr uint64_t kCallsMax = 1'000'000'000;
constexpr uint64_t kConnectionsMax = uint64_t{1} << 30;

// Less would not hold what one rank writes in a moment.
constexpr uint64_t kLogBytesMin = uint64_t{1} << 20;
constexpr uint64_t kLogBytesMax = uint64_t{1} << 50;

void AddCount(CLI::App& app, const char* flag, size_t& limit, uint64_t max, const char* help) {
  app.add_option(flag, limit, help)
      ->capture_default_str()
      ->check([max](const std::string& text) {
        uint64_t number = 0;
        const bool right = absl::SimpleAtoi(text, &number) && number >= 1 && number <= max;
        return right ? "" : absl::StrCat(text, " is no whole number from 1 to ", max);
      })
      ->type_name("N");
}

// In the units of these flags: 1MiB for 1048576.
std::string InUnits(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; bytes > 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return absl::StrCat(bytes, kUnits[unit]);
}

// `limit` is a number or an optional number.
template <typename Bytes>
CLI::Option* AddBytes(CLI::App& app, const char* flag, Bytes& limit, uint64_t min,
                      const char* help) {
  const auto to_number = [min](std::string& text) {
    std::string bytes = text;
    uint64_t number = 0;
    const bool right = CLI::AsSizeValue(/*kb_is_1000=*/false)(bytes).empty() &&
                       absl::SimpleAtoi(bytes, &number) && number >= min && number <= kLogBytesMax;
    if (right) text = bytes;
    return right ? ""
                 : absl::StrCat(text, " is no number of bytes from ", InUnits(min), " to ",
                                InUnits(kLogBytesMax), "; write one as 1048576, 64MiB or 2GiB");
  };
  return app.add_option(flag, limit, help)
      ->transform(CLI::Validator(to_number, /*help=*/""))
      ->type_name("BYTES");
}

}  // namespace

void AddStoreLimits(CLI::App& app, KeyValueLimits& limits) {
  AddCount(app, "--store-key-bytes-max", limits.key_bytes, kKeyBytesMax,
           "One key of a job's store, 1 MiB at most");
  AddCount(app, "--store-value-bytes-max", limits.value_bytes, kValueBytesMax,
           "One value of a job's store, 8 MiB at most");
  AddCount(app, "--store-keys-max", limits.keys, kKeysMax,
           "Keys and queued elements of a job's store");
  AddCount(app, "--store-bytes-max", limits.total_bytes, kStoreBytesMax,
           "Keys, values and elements of a job's store");
}

void AddMemoryLimit(CLI::App& app, uint64_t& memory_max) {
  AddBytes(
      app, "--memory-max", memory_max, kMemoryMaxMin,
      "Memory for requests, beside the state, as 1GiB; past it TCPStore clients wait and other "
      "calls are retried; keys that clients wait for may take as much again")
      ->default_str(InUnits(memory_max));
}

void AddParameterMemory(CLI::App& app, uint64_t& parameter_memory) {
  AddBytes(app, "--parameter-memory", parameter_memory, kLogBytesMin,
           "Memory for the weights, optimizers and gradients of jobs with strategy ps, beside "
           "--memory-max; a job that needs more fails at its start")
      ->default_str(InUnits(parameter_memory));
}

void AddCallerLimits(CLI::App& app, CallerFlags& flags) {
  AddCount(app, "--calls-per-second", flags.calls_per_second, kCallsMax,
           "Calls that a person or a rank may make each second, and ten times as many at once; a "
           "worker may make ten times as many");
  AddCount(app, "--connections-per-host", flags.connections_per_host, kConnectionsMax,
           "Open connections from one address, which may be that of a gateway for many hosts");
}

void AddDiskLimits(CLI::App& app, DiskFlags& flags) {
  AddBytes(app, "--logs-bytes-max", flags.logs_bytes_max, kLogBytesMin,
           "Logs of all jobs, as 64GiB; past it those of jobs that ended first are removed "
           "[half of the disk, 64GiB at most]");
  AddBytes(app, "--job-logs-bytes-max", flags.job_logs_bytes_max, kLogBytesMin,
           "Logs of one job; past it they are cut [an eighth of the disk, 1GiB at most]");
  AddBytes(app, "--parameters-bytes-max", flags.parameters_bytes_max, kLogBytesMin,
           "Parameters of all jobs and names; past it none are taken [half of what logs and "
           "jobs leave of the disk, 256GiB at most]");
  AddBytes(app, "--log-disk-reserve", flags.log_disk_reserve, 0,
           "While the disk has less room, logs of jobs that ended first are removed; where there "
           "are none, logs wait at the workers; parameters are rejected [a sixteenth of the disk, "
           "24MiB to 1GiB]");
  AddBytes(app, "--disk-reserve", flags.disk_reserve, 0,
           "While the disk has less room, no job is taken [a thirty-second of the disk, 12MiB to "
           "512MiB]");
  AddBytes(app, "--job-specs-bytes-max", flags.job_specs_bytes_max, kLogBytesMin,
           "Specs of all jobs on record; past it jobs that ended first are forgotten, then none "
           "is taken [an eighth of the disk, 256MiB at most]");
}

ParameterLimits DiskFlags::ParametersOn(const DiskShares& shares) const {
  return {.bytes_max = parameters_bytes_max.value_or(shares.parameters_bytes_max),
          .disk_reserve = log_disk_reserve.value_or(shares.log_disk_reserve)};
}

LogLimits DiskFlags::LogsOn(const DiskShares& shares) const {
  return {.job_bytes_max = job_logs_bytes_max.value_or(shares.job_logs_bytes_max),
          .bytes_max = logs_bytes_max.value_or(shares.logs_bytes_max),
          .disk_reserve = log_disk_reserve.value_or(shares.log_disk_reserve)};
}

DiskLimits DiskFlags::JournalOn(const DiskShares& shares) const {
  return {.submit_reserve = disk_reserve.value_or(shares.submit_reserve),
          .floor = shares.floor,
          .job_specs_bytes_max = job_specs_bytes_max.value_or(shares.job_specs_bytes_max)};
}

}  // namespace dp::server
