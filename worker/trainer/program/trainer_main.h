#pragma once

namespace dp::trainer {

// The common main of all trainers: --version, --help, remove-files, evaluate, predict, or one rank
// as the environment describes it. Returns the exit code; writes errors to standard error, prefixed
// with `program`.
int RunTrainer(const char* program, int argc, char** argv);

}  // namespace dp::trainer
