#include "base/signal_name.h"

#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace dp {
namespace {

// The well-known names; strsignal would depend on the locale.
absl::string_view SignalName(int signal) {
  switch (signal) {
    case 1:
      return "SIGHUP";
    case 2:
      return "SIGINT";
    case 3:
      return "SIGQUIT";
    case 4:
      return "SIGILL";
    case 6:
      return "SIGABRT";
    case 7:
      return "SIGBUS";
    case 8:
      return "SIGFPE";
    case 9:
      return "SIGKILL";
    case 11:
      return "SIGSEGV";
    case 13:
      return "SIGPIPE";
    case 15:
      return "SIGTERM";
    case 24:
      return "SIGXCPU";
    default:
      return "";
  }
}

}  // namespace

std::string SignalText(int signal) {
  const absl::string_view name = SignalName(signal);
  return name.empty() ? absl::StrCat("signal ", signal)
                      : absl::StrCat("signal ", signal, " (", name, ")");
}

bool IsSignalName(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "SIG")) return false;
  // Second names of SIGCHLD and SIGPOLL, and names that the C library does not list.
  for (const char* other : {"CLD", "IO", "RTMIN", "RTMAX"})
    if (name == other) return true;
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* known = sigabbrev_np(signal);
    if (known != nullptr && name == known) return true;
  }
  return false;
}

}  // namespace dp
