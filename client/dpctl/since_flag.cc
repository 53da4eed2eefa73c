#include "client/dpctl/since_flag.h"

#include "absl/strings/str_cat.h"

namespace dp::ctl {

absl::StatusOr<absl::Time> ReadSince(const std::string& text, absl::Time now) {
  absl::Duration ago;
  if (absl::ParseDuration(text, &ago) && ago >= absl::ZeroDuration()) return now - ago;
  absl::Time time;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return time;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text,
                   "' is neither a duration, such as 5m or 1h30m, nor a time as RFC 3339 writes "
                   "it, such as 2026-11-21T19:10:00Z"));
}

CLI::Option* AddSince(CLI::App& app, const std::string& flag, std::string& value,
                      const std::string& help) {
  const auto wrong = [](const std::string& text) {
    return std::string(ReadSince(text, absl::UnixEpoch()).status().message());
  };
  return app.add_option(flag, value, help)->check(wrong)->type_name("DURATION|TIME");
}

}  // namespace dp::ctl
