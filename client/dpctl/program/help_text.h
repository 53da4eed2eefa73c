#pragma once

#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace dp::ctl {

// The help of dpctl in CLI11's layout, with usage lines that name programs and their arguments,
// which CLI11 does not know. Shared by the commands of one App; one thread.
class HelpText final : public CLI::Formatter {
 public:
  HelpText();

  // The usage lines: the words that may follow the command and its flags.
  void SetUsages(const CLI::App& verb, std::vector<std::string> usages);

  std::string make_usage(const CLI::App* app, std::string name) const override;

 private:
  std::map<const CLI::App*, std::vector<std::string>> usages_;
};

}  // namespace dp::ctl
