#include "worker/library/data_parallel/device_threads.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "dp/errors.h"
#include "worker/library/dist_error.h"
#include "worker/library/gpu/cuda_of_process.h"

namespace dp::library {
namespace {

using distributed::DistError;
using distributed::ErrorKind;

// Throws what a device threw, with the device's name before it.
[[noreturn]] void ThrowOf(const std::string& place, const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const DistError& error) {
    std::throw_with_nested(
        DistError(error.kind(), absl::StrCat(place, error.what()), error.missing_ranks()));
  } catch (const std::exception& error) {
    std::throw_with_nested(DistError(ErrorKind::kProgramFailed, absl::StrCat(place, error.what())));
  } catch (...) {
    std::throw_with_nested(DistError(ErrorKind::kProgramFailed,
                                     absl::StrCat(place, kUnknownException, kThrowAnother)));
  }
}

// The work may use streams that do not wait for the default one, on which its inputs are copied. It
// may choose another GPU, or leave work to the GPU behind it.
void RunOn(const Device& device, const std::function<void()>& work) {
  if (!device.gpu) return work();
  engine::CudaApi* const cuda = OrThrow(TheCuda(), ErrorSource::kOperation);
  OrThrow(cuda->UseDevice(*device.gpu), ErrorSource::kOperation);
  OrThrow(cuda->AwaitDevice(), ErrorSource::kOperation);
  work();
  OrThrow(cuda->UseDevice(*device.gpu), ErrorSource::kOperation);
  OrThrow(cuda->AwaitDevice(), ErrorSource::kOperation);
}

}  // namespace

DeviceThreads::DeviceThreads(std::vector<Device> devices)
    : devices_(std::move(devices)), thrown_(devices_.size()) {
  for (size_t device = 0; device < devices_.size(); ++device) {
    threads_.emplace_back([this, device] { Serve(device); });
    pthread_setname_np(threads_.back().native_handle(), devices_[device].name.c_str());
  }
}

DeviceThreads::~DeviceThreads() {
  MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

void DeviceThreads::Run(const std::string& verb, size_t count,
                        const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> thrown(devices_.size());
  {
    MutexLock lock(mu_);
    work_ = &work;
    count_ = count;
    unfinished_ = devices_.size();
    ++round_;
    changed_.NotifyAll();
    while (unfinished_ > 0) changed_.Wait(mu_);
    thrown.swap(thrown_);
  }
  for (size_t device = 0; device < devices_.size(); ++device) {
    if (thrown[device] == nullptr) continue;
    ThrowOf(
        absl::StrCat("replica ", device, " on device ", devices_[device].name, ": ", verb, ": "),
        thrown[device]);
  }
}

void DeviceThreads::Serve(size_t device) {
  for (uint64_t done = 0;; ++done) {
    const std::function<void(size_t)>* work = nullptr;
    {
      MutexLock lock(mu_);
      while (!closed_ && round_ == done) changed_.Wait(mu_);
      if (closed_) return;
      if (device < count_) work = work_;
    }
    std::exception_ptr thrown;
    try {
      if (work != nullptr) RunOn(devices_[device], [&] { (*work)(device); });
    } catch (...) {
      thrown = std::current_exception();
    }
    MutexLock lock(mu_);
    thrown_[device] = std::move(thrown);
    if (--unfinished_ == 0) changed_.NotifyAll();
  }
}

}  // namespace dp::library
