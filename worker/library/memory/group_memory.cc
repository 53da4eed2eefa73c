#include "worker/library/memory/group_memory.h"

#include <cstring>
#include <exception>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/library/dist_error.h"
#include "worker/library/in_engine.h"
#include "worker/library/memory/device_math.h"
#include "worker/library/memory/host_math.h"

namespace dp::library {
namespace {

size_t ChunksOf(const distributed::Elements& array) {
  return (array.count + kSumChunk - 1) / kSumChunk;
}

}  // namespace

GroupMemory::GroupMemory(std::optional<GpuUse> gpu, std::string context)
    : gpu_(gpu), context_(std::move(context)) {}

void GroupMemory::Check(const absl::Status& status) const {
  OrThrow(status, ErrorSource::kOperation, context_);
}

void GroupMemory::UseDevice() const { Check(gpu_->cuda->UseDevice(gpu_->device)); }

BorrowedMemory GroupMemory::Borrow(size_t bytes) {
  // The memory lies beside its span, which is what the holder sees.
  if (!gpu_) {
    struct OnHost {
      std::vector<std::max_align_t> memory;
      absl::Span<uint8_t> bytes;
    };
    const auto on_host = std::make_shared<OnHost>();
    try {
      on_host->memory.resize(bytes / sizeof(std::max_align_t) + 1);
    } catch (const std::exception&) {  // bad_alloc, or more than a vector holds
      throw distributed::DistError(distributed::ErrorKind::kLimit,
                                   absl::StrCat(context_, ": no memory for ", bytes, " bytes"));
    }
    on_host->bytes = {reinterpret_cast<uint8_t*>(on_host->memory.data()), bytes};
    return {on_host, &on_host->bytes};
  }
  struct OnGpu {
    ~OnGpu() {
      const size_t size = memory.bytes().size();
      spare->on_gpu.emplace(size, std::move(memory));
    }
    GpuMemory memory;
    std::shared_ptr<Spare> spare;
    absl::Span<uint8_t> bytes;
  };
  const auto found = spare_->on_gpu.find(bytes);
  std::optional<GpuMemory> memory;
  if (found != spare_->on_gpu.end()) {
    memory = std::move(found->second);
    spare_->on_gpu.erase(found);
  } else {
    memory = OrThrow(GpuMemory::Allocate(*gpu_, bytes), ErrorSource::kOperation, context_);
  }
  const absl::Span<uint8_t> span = memory->bytes();
  const std::shared_ptr<OnGpu> on_gpu(new OnGpu{*std::move(memory), spare_, span});
  return {on_gpu, &on_gpu->bytes};
}

void GroupMemory::Zero(absl::Span<uint8_t> memory) {
  if (memory.empty()) return;
  if (!gpu_) return void(std::memset(memory.data(), 0, memory.size()));
  UseDevice();
  Check(gpu_->cuda->ZeroOnStream(memory.data(), memory.size(), gpu_->stream));
}

void GroupMemory::Copy(absl::Span<const uint8_t> from, uint8_t* to) {
  if (from.empty()) return;
  if (!gpu_) return void(std::memcpy(to, from.data(), from.size()));
  UseDevice();
  Check(gpu_->cuda->CopyOnStream(from.data(), from.size(), to, gpu_->stream));
}

void GroupMemory::Read(absl::Span<const uint8_t> from, void* to) {
  if (from.empty()) return;
  if (!gpu_) return void(std::memcpy(to, from.data(), from.size()));
  UseDevice();
  Check(gpu_->cuda->Copy(from.data(), from.size(), static_cast<uint8_t*>(to), gpu_->stream));
}

void GroupMemory::Write(const void* from, absl::Span<uint8_t> to) {
  if (to.empty()) return;
  if (!gpu_) return void(std::memcpy(to.data(), from, to.size()));
  UseDevice();
  Check(gpu_->cuda->Copy(static_cast<const uint8_t*>(from), to.size(), to.data(), gpu_->stream));
}

ArrayMath& GroupMemory::math() {
  if (gpu_) UseDevice();
  if (math_ != nullptr) return *math_;
  if (gpu_) {
    math_ = OrThrow(MakeDeviceMath(*gpu_), ErrorSource::kCaller, context_);
  } else {
    math_ = std::make_unique<HostMath>();
  }
  return *math_;
}

void GroupMemory::Convert(const distributed::Elements& from,
                          const distributed::MutableElements& to) {
  if (from.count > 0) Check(math().Convert(InEngine(from), InEngine(to)));
}

void GroupMemory::Scale(const distributed::MutableElements& values, double factor) {
  if (values.count > 0) Check(math().Scale(InEngine(values), factor));
}

double GroupMemory::SumOfSquares(absl::Span<const distributed::Elements> arrays) {
  size_t chunks = 0;
  for (const distributed::Elements& array : arrays) chunks += ChunksOf(array);
  const BorrowedMemory borrowed = Borrow(chunks * sizeof(double));
  const absl::Span<double> sums(reinterpret_cast<double*>(borrowed->data()), chunks);
  size_t next = 0;
  for (const distributed::Elements& array : arrays) {
    const absl::Span<double> its = sums.subspan(next, ChunksOf(array));
    if (!its.empty()) Check(math().SumSquares(InEngine(array), its));
    next += its.size();
  }
  std::vector<double> on_host(chunks);
  Read(*borrowed, on_host.data());
  return std::accumulate(on_host.begin(), on_host.end(), 0.0);
}

}  // namespace dp::library
