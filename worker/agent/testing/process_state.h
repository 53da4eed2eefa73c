#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

namespace dp::worker {

// The timeout of the poll() in which the process is blocked, in milliseconds; -1: it waits for an
// event only. Nothing while the process runs, or is blocked elsewhere.
std::optional<int> TimeoutOfPoll(pid_t pid);

// Whether TimeoutOfPoll can tell anything here: the kernel shows the calls of a process to those
// that may trace it.
bool CallsAreShown();

// The only child of this process, as the guard of the only rank.
pid_t OnlyChild();

// Whether a signal has stopped the process. A stop takes effect only after kill() has returned.
bool IsStopped(pid_t pid);

// How often all threads of the process have gone to sleep so far.
int64_t TimesAsleep(pid_t pid);

// Asks until the answer is yes, each time after a round trip to the kernel; false when patience
// ends.
bool Eventually(const std::function<bool()>& question);

}  // namespace dp::worker
