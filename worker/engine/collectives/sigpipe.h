#pragma once

#include <csignal>

namespace dp::engine {

// Turns a write to a closed connection into an error instead of a signal that ends the process.
// Call it on a thread of ours that writes; threads that it starts inherit the setting.
inline void BlockSigpipe() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace dp::engine
