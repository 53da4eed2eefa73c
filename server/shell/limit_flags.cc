#include "server/shell/limit_flags.h"

#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace dp::server {
namespace {

// A message of 20 MiB holds a key and two values, as a compare_set has.
constexpr uint64_t kKeyBytesMax = 1 << 20;
constexpr uint64_t kValueBytesMax = 8 << 20;
// More than any memory holds; the first that no count overflows at.
constexpr uint64_t kKeysMax = uint64_t{1} << 32;
constexpr uint64_t kStoreBytesMax = uint64_t{1} << 40;

// Below this not even what one rank says in a moment is kept.
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

void AddBytes(CLI::App& app, const char* flag, uint64_t& limit, uint64_t min, const char* help) {
  app.add_option(flag, limit, help)
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(min, kLogBytesMax))
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

void AddLogLimits(CLI::App& app, LogLimits& limits) {
  AddBytes(app, "--logs-bytes-max", limits.bytes_max, kLogBytesMin,
           "Logs of all jobs, as 64GiB; past it those of jobs that ended first are removed");
  AddBytes(app, "--job-logs-bytes-max", limits.job_bytes_max, kLogBytesMin,
           "Logs of one job; past it they are cut");
  AddBytes(app, "--log-disk-reserve", limits.disk_reserve, 0,
           "Logs are refused, and wait at the workers, while their disk has less room than this");
}

}  // namespace dp::server
