#pragma once

#include <thread>

#include "client/dpctl/interrupts.h"

namespace dp::ctl {

// Turns SIGINT, SIGTERM and SIGHUP into Interrupts. Make it before any other thread: later threads
// inherit the mask that keeps the signals for this one. One per program.
class SignalThread {
 public:
  explicit SignalThread(Interrupts& interrupts);
  ~SignalThread();

 private:
  int signals_ = -1;  // signalfd
  int stop_ = -1;     // eventfd
  std::jthread thread_;
};

}  // namespace dp::ctl
