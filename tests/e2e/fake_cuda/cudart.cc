// A fake of libcudart.so, beside a device whose kernels run on the host (dp_trainer_on_host).
// Implements what an NCCL group needs. Streams that this library has not made are the device's. The
// device works synchronously, so a wait on its stream blocks the caller. FAKE_CUDA_DEVICES is the
// number of devices, else 1. Processes with the same FAKE_CUDA_HOST have the same devices.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "tests/e2e/fake_cuda/host_stream.h"

namespace {

using dp::fake_cuda::HostStream;

// An event: a number of works given to a stream. The device's events have always passed.
struct Mark {
  HostStream* stream = nullptr;
  uint64_t given = 0;
};

// The streams that this library has made. Never destroyed: threads may outlive main.
class Streams {
 public:
  HostStream* Make() DP_EXCLUDES(mu_) {
    auto made = std::make_unique<HostStream>();
    HostStream* const stream = made.get();
    dp::MutexLock lock(mu_);
    streams_[stream] = std::move(made);
    return stream;
  }
  // Null for the device's stream.
  HostStream* Find(void* stream) DP_EXCLUDES(mu_) {
    dp::MutexLock lock(mu_);
    const auto found = streams_.find(stream);
    return found == streams_.end() ? nullptr : found->second.get();
  }
  void Destroy(void* stream) DP_EXCLUDES(mu_) {
    std::unique_ptr<HostStream> ended;  // joins its thread, outside the lock
    dp::MutexLock lock(mu_);
    const auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    ended = std::move(found->second);
    streams_.erase(found);
  }

 private:
  dp::Mutex mu_;
  std::map<void*, std::unique_ptr<HostStream>> streams_ DP_GUARDED_BY(mu_);
};
Streams& streams = *new Streams;

// The memory that cudaMalloc has given and cudaFree has not taken back.
class DeviceMemory {
 public:
  void Add(void* memory, size_t bytes, int device) DP_EXCLUDES(mu_) {
    dp::MutexLock lock(mu_);
    given_[memory] = {static_cast<char*>(memory) + bytes, device};
  }
  void Remove(void* memory) DP_EXCLUDES(mu_) {
    dp::MutexLock lock(mu_);
    given_.erase(memory);
  }
  std::optional<int> DeviceOf(const void* memory) DP_EXCLUDES(mu_) {
    dp::MutexLock lock(mu_);
    const auto behind = given_.upper_bound(memory);
    if (behind == given_.begin() || memory >= std::prev(behind)->second.end) return std::nullopt;
    return std::prev(behind)->second.device;
  }

 private:
  struct Given {
    const void* end;
    int device;
  };
  dp::Mutex mu_;
  std::map<const void*, Given> given_ DP_GUARDED_BY(mu_);  // by begin
};
DeviceMemory& device_memory = *new DeviceMemory;

thread_local int chosen_device = 0;

Mark& MarkOf(cudaEvent_t event) { return *reinterpret_cast<Mark*>(event); }

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const char* const devices = std::getenv("FAKE_CUDA_DEVICES");
  *count = devices == nullptr ? 1 : std::atoi(devices);
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaSetDevice(int device) {
  int count = 0;
  (void)cudaGetDeviceCount(&count);
  if (device < 0 || device >= count) return cudaErrorInvalidDevice;
  chosen_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = chosen_device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* place, int length, int device) {
  const char* const host = std::getenv("FAKE_CUDA_HOST");
  std::snprintf(place, static_cast<size_t>(length), "%s:%d", host == nullptr ? "" : host, device);
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = reinterpret_cast<cudaStream_t>(streams.Make());
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  streams.Destroy(stream);
  return cudaSuccess;
}
// For users of the device's stream alone, which works synchronously.
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const HostStream* ours = streams.Find(stream)) ours->Await(ours->given());
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Mark mark = MarkOf(event);
  if (mark.stream == nullptr) return cudaSuccess;
  if (HostStream* ours = streams.Find(stream)) {
    ours->Give([mark] { mark.stream->Await(mark.given); });
  } else {
    mark.stream->Await(mark.given);
  }
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Mark);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &MarkOf(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  HostStream* const ours = streams.Find(stream);
  MarkOf(event) = {ours, ours == nullptr ? 0 : ours->given()};
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Mark& mark = MarkOf(event);
  const bool passed = mark.stream == nullptr || mark.stream->Done(mark.given);
  return passed ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  device_memory.Add(*memory, bytes, chosen_device);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  device_memory.Remove(memory);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  const std::optional<int> device = device_memory.DeviceOf(memory);
  if (!device) return cudaSuccess;
  attributes->type = cudaMemoryTypeDevice;
  attributes->device = *device;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  const cudaError_t before = cudaStreamSynchronize(stream);
  if (bytes > 0) std::memcpy(to, from, bytes);
  return before;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  const cudaError_t before = cudaStreamSynchronize(stream);
  if (bytes > 0) std::memset(memory, value, bytes);
  return before;
}

}  // extern "C"
