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

  // The job that the command takes from the command line, possibly a program; null: none.
  virtual JobSource* source() { return nullptr; }

  // Whether arguments of the command may begin with "-", such as values. They then stand behind
  // "--".
  virtual bool TakesWordsBehindDashes() const { return false; }

  // Whether the command, with its flags, uses the coordinator of --coordinator. Others ignore its
  // address.
  virtual bool NeedsCoordinator() const { return true; }

  // The flag with which the command needs no coordinator; empty: there is none.
  virtual std::string FlagToRunHere() const { return ""; }

  // The exit code that replaces kFailed when this command ends with an error other than a refusal
  // of the caller.
  virtual int CodeOfFailure() const { return kFailed; }

  // Returns the exit code; errors are printed, and ExitCodeOf (exit_code.h) maps them.
  virtual absl::StatusOr<int> Run(Context& context) = 0;

  // Whether Ctrl-C raises Surroundings::interrupts instead of ending the program.
  virtual bool TakesInterrupts() const { return false; }
};

}  // namespace dp::ctl
