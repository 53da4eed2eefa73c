#pragma once

#include <memory>

#include "client/dpctl/context.h"
#include "client/dpctl/interrupts.h"
#include "client/dpctl/program/output_stream.h"
#include "client/dpctl/program/signal_thread.h"

namespace dp::ctl {

// The Surroundings of a real dpctl: gRPC, the standard streams, this machine's processes and
// signals. One per program, owned by main.
class ThisMachine {
 public:
  ThisMachine();
  Surroundings& surroundings() { return surroundings_; }

 private:
  OutputStream out_;
  Interrupts interrupts_;
  std::unique_ptr<SignalThread> signals_;
  Surroundings surroundings_;
};

}  // namespace dp::ctl
