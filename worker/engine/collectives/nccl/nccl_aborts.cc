#include "worker/engine/collectives/nccl/nccl_aborts.h"

#include <pthread.h>

#include <utility>

namespace dp::engine {

void NcclAborts::Begin(NcclApi::Communicator communicator) {
  MutexLock lock(mu_);
  threads_.emplace_back([this, communicator] {
    pthread_setname_np(pthread_self(), "nccl-abort");
    (void)api_.UseDevice(device_);  // if it fails, the abort frees what it can
    api_.Abort(communicator);
  });
}

void NcclAborts::Await() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mu_);
    threads = std::exchange(threads_, {});
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace dp::engine
