#include "worker/library/gpu/gpu_memory.h"

#include <cstring>

#include "base/status.h"
#include "worker/library/dist_error.h"
#include "worker/library/gpu/cuda_of_process.h"

namespace dp::library {

absl::StatusOr<GpuMemory> GpuMemory::Allocate(const GpuUse& use, size_t bytes) {
  if (bytes == 0) return GpuMemory({nullptr, FreedByCuda{use}}, 0);
  DP_RETURN_IF_ERROR(use.cuda->UseDevice(use.device));
  DP_ASSIGN_OR_RETURN(uint8_t* const memory, use.cuda->Allocate(bytes));
  return GpuMemory({memory, FreedByCuda{use}}, bytes);
}

void GpuMemory::FreedByCuda::operator()(uint8_t* memory) const { use.cuda->Free(memory); }

ChosenGpu::ChosenGpu(engine::CudaApi& cuda, int device, absl::string_view context)
    : cuda_(cuda), before_(OrThrow(cuda.ChosenDevice(), ErrorSource::kOperation, context)) {
  OrThrow(cuda.UseDevice(device), ErrorSource::kOperation, context);
}

ChosenGpu::~ChosenGpu() { (void)cuda_.UseDevice(before_); }  // it was in use before

void AwaitGpu(int device, absl::string_view context) {
  engine::CudaApi* const cuda = OrThrow(TheCuda(), ErrorSource::kOperation, context);
  const ChosenGpu chosen(*cuda, device, context);
  OrThrow(cuda->AwaitDevice(), ErrorSource::kOperation, context);
}

void CopyBytes(const MemoryPlace& from, const MemoryPlace& to, size_t bytes,
               absl::string_view context) {
  if (bytes == 0) return;
  if (!from.gpu && !to.gpu) return void(std::memcpy(to.begin, from.begin, bytes));
  engine::CudaApi* const cuda = OrThrow(TheCuda(), ErrorSource::kOperation, context);
  const bool within = from.gpu == to.gpu;
  if (!within && from.gpu) AwaitGpu(*from.gpu, context);
  const ChosenGpu chosen(*cuda, to.gpu ? *to.gpu : *from.gpu, context);
  OrThrow(within ? cuda->CopyOnStream(from.begin, bytes, to.begin, nullptr)
                 : cuda->Copy(from.begin, bytes, to.begin, nullptr),
          ErrorSource::kOperation, context);
}

}  // namespace dp::library
