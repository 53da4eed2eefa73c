#pragma once

#include <string>

#include "CLI/CLI.hpp"

// Scripts with which shells complete the words of a command line. They are generated from the
// commands and flags of `app`, so they always match.

namespace dp::ctl {

std::string BashCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);

}  // namespace dp::ctl
