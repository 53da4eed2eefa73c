#include "worker/agent/shutdown_signals.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace dp::worker {

ShutdownSignals::ShutdownSignals(Mailbox& mailbox, std::function<void()> wanted) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, each);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ =
      std::jthread([&mailbox, signals, wanted = std::move(wanted)](const std::stop_token& stop) {
        int signal = 0;
        while (sigwait(&signals, &signal) == 0 && !stop.stop_requested()) {
          mailbox.Tell(ShutdownWanted{});
          wanted();
        }
      });
  pthread_setname_np(thread_.native_handle(), "signals");
}

ShutdownSignals::~ShutdownSignals() {
  thread_.request_stop();
  pthread_kill(thread_.native_handle(), SIGTERM);
}

}  // namespace dp::worker
