#include "store/file_change.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>

namespace dp {
namespace {

// How late a change by another machine may be noticed.
constexpr absl::Duration kMoment = absl::Milliseconds(50);

}  // namespace

FileChange::FileChange(const std::string& path)
    : inotify_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  if (inotify_.valid() && inotify_add_watch(inotify_.get(), path.c_str(), IN_MODIFY) < 0)
    inotify_.Close();
}

void FileChange::Wait(absl::Duration timeout) {
  const absl::Duration bounded = std::clamp(timeout, absl::ZeroDuration(), absl::Duration(kMoment));
  pollfd event{inotify_.get(), POLLIN, 0};
  const auto milliseconds = absl::ToInt64Milliseconds(absl::Ceil(bounded, absl::Milliseconds(1)));
  if (poll(&event, 1, static_cast<int>(milliseconds)) <= 0) return;
  char told[4096];
  while (read(inotify_.get(), told, sizeof told) > 0) continue;
}

}  // namespace dp
