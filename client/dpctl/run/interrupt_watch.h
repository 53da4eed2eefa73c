#pragma once

#include <pthread.h>

#include <thread>

#include "absl/time/time.h"
#include "client/dpctl/context.h"
#include "client/dpctl/interrupts.h"

namespace dp::ctl {

// While it lives, the Ctrl-C of the given number (1 is the first) interrupts the context's calls,
// which must have used coordinator(). At most one watch may be destroyed before its Ctrl-C: nobody
// can wait for interrupts after that.
class InterruptWatch {
 public:
  InterruptWatch(Context& context, int number)
      : number_(number), interrupts_(context.surroundings().interrupts), thread_([this, &context] {
          pthread_setname_np(pthread_self(), "interrupts");
          if (interrupts_.Await(number_, absl::InfiniteDuration())) context.Interrupt();
        }) {}
  ~InterruptWatch() {
    if (interrupts_.count() < number_) interrupts_.StopWaiting();
  }

 private:
  const int number_;
  Interrupts& interrupts_;
  std::jthread thread_;
};

}  // namespace dp::ctl
