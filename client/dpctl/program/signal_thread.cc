#include "client/dpctl/program/signal_thread.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "base/check.h"

namespace dp::ctl {
namespace {

void RaiseOnSignals(int signals, int stop, Interrupts& interrupts) {
  while (true) {
    pollfd ready[] = {{.fd = signals, .events = POLLIN, .revents = 0},
                      {.fd = stop, .events = POLLIN, .revents = 0}};
    if (poll(ready, 2, -1) < 0) continue;  // interrupted by a signal of another kind
    if (ready[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals, &info, sizeof(info)) != sizeof(info)) continue;
    // A closing terminal and `timeout` send their signal twice; the second one means nothing.
    if (info.ssi_signo == SIGINT || interrupts.count() == 0) interrupts.Raise();
  }
}

}  // namespace

SignalThread::SignalThread(Interrupts& interrupts) {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&mask, signal);
  DP_CHECK(pthread_sigmask(SIG_BLOCK, &mask, nullptr) == 0);
  signals_ = signalfd(-1, &mask, SFD_CLOEXEC);
  stop_ = eventfd(0, EFD_CLOEXEC);
  DP_CHECK(signals_ >= 0 && stop_ >= 0);
  thread_ = std::jthread(RaiseOnSignals, signals_, stop_, std::ref(interrupts));
  pthread_setname_np(thread_.native_handle(), "dpctl-signals");
}

SignalThread::~SignalThread() {
  DP_CHECK(eventfd_write(stop_, 1) == 0);
  thread_.join();
  close(signals_);
  close(stop_);
}

}  // namespace dp::ctl
