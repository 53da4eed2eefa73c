#include "client/dpctl/program/help_text.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::ctl {

HelpText::HelpText() {
  label("SUBCOMMAND", "COMMAND");
  label("Subcommands", "Commands");
  label("Positionals", "Arguments");
}

void HelpText::SetUsages(const CLI::App& verb, std::vector<std::string> usages) {
  usages_[&verb] = std::move(usages);
}

std::string HelpText::make_usage(const CLI::App* app, std::string name) const {
  const auto usages = usages_.find(app);
  if (usages == usages_.end()) return Formatter::make_usage(app, name);
  std::string lines;
  for (const std::string& usage : usages->second)
    absl::StrAppend(&lines, lines.empty() ? "Usage: " : "       ", name, " [OPTIONS] ", usage,
                    "\n");
  return lines;
}

}  // namespace dp::ctl
