#include "base/program/log.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/program/log_sink.h"

namespace dp {
namespace {

// The longest value in a log line; the logs of the job have the rest.
constexpr size_t kValueBytesMax = 4 << 10;

bool IsPlain(char c) { return absl::ascii_isgraph(c) && c != '"' && c != '='; }

std::string Quoted(absl::string_view value) {
  const absl::string_view shown = value.substr(0, kValueBytesMax);
  if (!value.empty() && absl::c_all_of(shown, IsPlain) && shown.size() == value.size())
    return std::string(value);
  // Between double quotes an apostrophe needs no escape.
  const std::string escaped = absl::StrReplaceAll(absl::CEscape(shown), {{"\\'", "'"}});
  return absl::StrCat("\"", escaped, shown.size() < value.size() ? "..." : "", "\"");
}

}  // namespace

void Log(Severity severity, absl::string_view event, std::initializer_list<LogField> fields) {
  std::string line = absl::StrCat("event=", event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.name, "=", Quoted(field.value));
  }
  WriteLogLine(severity, line);
}

}  // namespace dp
