#pragma once

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/dpctl/context.h"
#include "client/dpctl/exit_code.h"

namespace dp::ctl {

class JobSource;

// One verb of dpctl. Lives as long as the program; one thread.
class Command {
 public:
  virtual ~Command() = default;

  virtual const char* name() const = 0;
  virtual const char* summary() const = 0;
  // Shown below the help.
  virtual const char* example() const = 0;
  virtual void DefineFlags(CLI::App& app) = 0;

  // The job that it takes from the command line, which may be a program; null: it takes none.
  virtual JobSource* source() { return nullptr; }

  // Whether words behind "--" are its own instead, as values that begin with "-".
  virtual bool TakesWordsBehindDashes() const { return false; }

  // The flag with which it would have needed no coordinator; empty: there is none.
  virtual std::string FlagToRunHere() const { return ""; }

  // What kFailed is where this command ends with an error.
  virtual int CodeOfFailure() const { return kFailed; }

  // Returns the exit code; an error is printed and mapped by ExitCodeOf (exit_code.h).
  virtual absl::StatusOr<int> Run(Context& context) = 0;

  // Whether Ctrl-C comes through Surroundings::interrupts instead of ending the program.
  virtual bool TakesInterrupts() const { return false; }
};

// The table of all commands, in the order of the help.
std::vector<std::unique_ptr<Command>> AllCommands();

}  // namespace dp::ctl
