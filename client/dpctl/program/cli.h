#pragma once

#include "client/dpctl/context.h"

namespace dp::ctl {

// Parses the command line, runs the command and returns the exit code (docs/dpctl.md). Errors go to
// the terminal's `err`.
int RunCommandLine(int argc, const char* const* argv, Surroundings& surroundings);

}  // namespace dp::ctl
