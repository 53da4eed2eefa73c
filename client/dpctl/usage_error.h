#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "client/dpctl/command.h"

// What to say of a command line that CLI11 refuses.

namespace dp::ctl {

// What is wrong, and the remedy. `verb` is the command of the command line; null: there is none.
std::string WhatIsWrong(const CLI::ParseError& error, const CLI::App& app, Command* verb);

// What shows the help of the command that stands there: "dpctl store get --help".
std::string HelpCommand(const CLI::App& app);

}  // namespace dp::ctl
