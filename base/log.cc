#include "base/log.h"

#include <string>

#include "absl/strings/escaping.h"
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

std::string Quoted(absl::string_view value) {
  const bool plain = !value.empty() && value.find_first_of(" \t\n\"=") == value.npos;
  return plain ? std::string(value) : absl::StrCat("\"", absl::CEscape(value), "\"");
}

}  // namespace

void Log(Severity severity, absl::string_view event, std::initializer_list<LogField> fields) {
  std::string line = absl::StrCat("event=", event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.name, "=", Quoted(field.value));
  }
  Logger().log(Level(severity), "{}", line);
}

}  // namespace dp
