#pragma once

namespace dp::trainer {

// What every trainer program does but for its own flags: --version, or one rank as the environment
// says. Returns the exit code; errors go to standard error, after `program`.
int RunTrainer(const char* program, int argc, char** argv);

}  // namespace dp::trainer
