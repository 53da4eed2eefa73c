#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "client/dpctl/command.h"

// Messages about command lines that CLI11 rejects.

namespace dp::ctl {

// The error, and the remedy. `verb` is the command of the command line; null: there is none.
// `unknown_flag` is a flag that does not exist and stands before all other words; empty: none does.
std::string WhatIsWrong(const CLI::ParseError& error, const CLI::App& app, Command* verb,
                        const std::string& unknown_flag = "");

// The command line that shows the help of the given command: "dpctl store get --help".
std::string HelpCommand(const CLI::App& app);

}  // namespace dp::ctl
