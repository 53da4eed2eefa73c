#include "worker/library/spawn/rank_process.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::library {
namespace {

using distributed::DistError;
using distributed::ErrorKind;

// Longer texts of exceptions are cut.
constexpr size_t kThrownBytesMax = 64 << 10;
constexpr int kThrewCode = 1;

// The beginning of a note. The text follows.
struct NoteHead {
  int64_t at_ns;
  bool blames_peers;
};

absl::Status OutOf(const char* call, int rank) {
  return absl::ResourceExhaustedError(
      absl::StrCat("spawn: rank ", rank, ": ", call, ": ", std::strerror(errno)));
}

void Leave(int note, bool blames_peers, std::string text) {
  const NoteHead head{std::chrono::steady_clock::now().time_since_epoch().count(), blames_peers};
  text.resize(std::min(text.size(), kThrownBytesMax));
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes += text;
  (void)!write(note, bytes.data(), bytes.size());  // the exit code remains
}

bool BlamesPeers(ErrorKind kind) {
  return kind == ErrorKind::kPeerGone || kind == ErrorKind::kTimeout ||
         kind == ErrorKind::kUnreachable;
}

// Returns the exit code.
int RunNoted(const std::function<void()>& body, int note) {
  try {
    body();
    return 0;
  } catch (const DistError& error) {
    Leave(note, BlamesPeers(error.kind()), error.what());
  } catch (const std::exception& error) {
    Leave(note, false, error.what());
  } catch (...) {
    Leave(note, false,
          "one of unknown type; throw a std::exception, whose text the error then has");
  }
  return kThrewCode;
}

void FlushOutput() {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
}

void SetVariables(const RankVariables& variables) {
  for (const auto& [name, value] : variables) {
    if (value)
      setenv(name.c_str(), value->c_str(), 1);
    else
      unsetenv(name.c_str());
  }
}

// Neither destructors of the parent's objects nor its functions of atexit run in a child.
[[noreturn]] void RunChild(pid_t parent, int note, const std::function<void()>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kThrewCode);  // it died before the line above
  const int code = RunNoted(body, note);
  FlushOutput();
  _exit(code);
}

std::optional<ThrownText> ReadNote(int note) {
  std::string bytes(sizeof(NoteHead) + kThrownBytesMax, '\0');
  const ssize_t size = pread(note, bytes.data(), bytes.size(), 0);
  if (size < static_cast<ssize_t>(sizeof(NoteHead))) return std::nullopt;
  NoteHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  return ThrownText{bytes.substr(sizeof head, size - sizeof head), head.blames_peers, head.at_ns};
}

}  // namespace

RankProcess::RankProcess(int rank, int pid, FileDescriptor ended, FileDescriptor note)
    : rank_(rank), pid_(pid), ended_(std::move(ended)), note_(std::move(note)) {}

absl::StatusOr<RankProcess> RankProcess::Start(int rank, const RankVariables& variables,
                                               const std::function<void()>& prepare,
                                               const std::function<void(int)>& fn) {
  FileDescriptor note(memfd_create("dp-rank", MFD_CLOEXEC));
  if (!note.valid()) return OutOf("memfd_create", rank);
  FlushOutput();  // else the child would write it, too
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return OutOf("fork", rank);
  if (pid == 0) {
    RunChild(parent, note.get(), [&] {
      SetVariables(variables);
      prepare();
      fn(rank);
    });
  }
  FileDescriptor ended(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (ended.valid()) return RankProcess(rank, pid, std::move(ended), std::move(note));
  const absl::Status why = OutOf("pidfd_open", rank);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return why;
}

void RankProcess::Signal(int signal) const { kill(pid_, signal); }

RankEnd RankProcess::TakeEnd() {
  RankEnd end{.rank = rank_, .pid = pid_};
  int status = 0;
  pid_t reaped = 0;
  do {
    reaped = waitpid(pid_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  if (reaped == pid_ && WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (reaped == pid_ && WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  end.thrown = ReadNote(note_.get());
  return end;
}

}  // namespace dp::library
