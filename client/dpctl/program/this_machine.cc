#include "client/dpctl/program/this_machine.h"
#include "base/utf8.h"

#include <pwd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/connection.h"
#include "client/credentials.h"
#include "client/dpctl/local/local_trainer.h"
#include "client/dpctl/program/machine_logins.h"
#include "client/job/data_form.h"
#include "client/refusal.h"

namespace dp::ctl {
namespace {

// Far longer than a handshake takes.
constexpr absl::Duration kLookIntoRefusal = absl::Seconds(3);

int TerminalColumns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  // The last column stays free: some terminals wrap at it.
  return known ? size.ws_col - 1 : 79;
}

// The name from the shell; in a unit or a container, where nobody logs in, that of the process.
std::string UserName() {
  for (const char* variable : {"USER", "LOGNAME"}) {
    const char* name = std::getenv(variable);
    if (name != nullptr && *name != '\0' && IsUtf8(name)) return name;
  }
  const passwd* entry = getpwuid(getuid());
  return entry == nullptr ? absl::StrCat(getuid()) : entry->pw_name;
}

std::string WorkingDir() {
  std::error_code error;
  const std::string path = std::filesystem::current_path(error).string();
  return error ? "/" : path;  // the directory was removed
}

}  // namespace

ThisMachine::ThisMachine()
    : out_(STDOUT_FILENO),
      surroundings_{
          .connect =
              [](const std::string& address, const client::CredentialFlags& flags) {
                auto found = client::FindCredentials(address, flags);
                return std::make_unique<client::Connection>(
                    address,
                    found.ok() ? *std::move(found) : client::Credentials::Missing(found.status()));
              },
          .why_refused =
              [](const std::string& address, const client::CredentialFlags& flags) {
                return client::WhyRefused(address, flags, kLookIntoRefusal);
              },
          .logins = MachineLogins(),
          .start_local = StartLocalCluster,
          .run_trainer = RunLocalTrainer,
          .form_of_samples = client::FormOf,
          .working_dir = WorkingDir(),
          .user = UserName(),
          .machine = {.cpus = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u)),
                      .gpus = FindLocalGpus},
          .terminal = {.out = out_,
                       .err = std::cerr,
                       .out_is_tty = isatty(STDOUT_FILENO) != 0,
                       .err_is_tty = isatty(STDERR_FILENO) != 0,
                       .columns = TerminalColumns(),
                       .write_error = [this] { return out_.write_error(); }},
          .clock = Clock::System(),
          .interrupts = interrupts_,
          .catch_signals = [this] { signals_ = std::make_unique<SignalThread>(interrupts_); }} {
  // A reader that closes the pipe early, as head does, then makes the stream fail, and the command
  // ends.
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace dp::ctl
