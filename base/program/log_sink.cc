#include "base/program/log_sink.h"

#include <memory>
#include <string>

#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace dp {
namespace {

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = spdlog::stderr_logger_mt("dp");
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum Level(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return spdlog::level::info;
    case Severity::kWarning:
      return spdlog::level::warn;
    case Severity::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void WriteLogLine(Severity severity, absl::string_view line) {
  Logger().log(Level(severity), "{}", std::string(line));
}

}  // namespace dp
