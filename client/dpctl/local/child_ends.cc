#include "client/dpctl/local/child_ends.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"

namespace dp::ctl {

ChildEnds::ChildEnds(std::vector<int> pidfds, std::function<void(size_t)> ended)
    : pidfds_(std::move(pidfds)), ended_(std::move(ended)), stop_(eventfd(0, EFD_CLOEXEC)) {
  DP_CHECK(stop_ >= 0);
  thread_ = std::jthread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "child-ends");
}

ChildEnds::~ChildEnds() {
  DP_CHECK(eventfd_write(stop_, 1) == 0);
  thread_.join();
  close(stop_);
}

void ChildEnds::Run() {
  std::vector<pollfd> fds = {{stop_, POLLIN, 0}};
  for (const int pidfd : pidfds_) fds.push_back({pidfd, POLLIN, 0});
  while (fds[0].revents == 0) {
    for (size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      fds[i] = {-1, 0, 0};
      ended_(i - 1);
    }
    (void)poll(fds.data(), fds.size(), -1);  // interrupted by a signal, nothing is ready
  }
}

}  // namespace dp::ctl
