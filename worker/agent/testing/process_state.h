#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

namespace dp::worker {

// The timeout in ms of the poll() in which the process is blocked; -1: it waits only for an event.
// Nothing while the process runs, or is blocked elsewhere.
std::optional<int> TimeoutOfPoll(pid_t pid);

// Whether TimeoutOfPoll works here: the kernel shows a process's system calls only to processes
// that may trace it.
bool CallsAreShown();

// The only child of this process, for example the guard of the only rank.
pid_t OnlyChild();

// Whether a signal has stopped the process. A stop takes effect only after kill() has returned.
bool IsStopped(pid_t pid);

// How often the threads of the process have gone to sleep so far, all together.
int64_t TimesAsleep(pid_t pid);

// Repeats the question until the answer is true, with a system call after each attempt. False on
// timeout.
bool Eventually(const std::function<bool()>& question);

}  // namespace dp::worker
