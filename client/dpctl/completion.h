#pragma once

#include <string>

#include "CLI/CLI.hpp"

// Scripts with which shells complete the words of a command line, written from the commands and
// flags that `app` has, so that they name just what there is.

namespace dp::ctl {

std::string BashCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);

}  // namespace dp::ctl
