#include <algorithm>
#include <cmath>
#include <new>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/device/cpu/cpu_nan.h"
#include "worker/engine/device/cpu/cpu_network.h"
#include "worker/engine/device/device.h"
#include "worker/engine/nn/host_optimizer.h"

namespace dp::engine {
namespace {

// More threads than any host has cores.
constexpr int kThreadsMax = 1024;

class CpuArray : public Array {
 public:
  explicit CpuArray(int64_t size)
      : data_(new (std::align_val_t{kAlignment}) float[size]()), size_(size) {}
  ~CpuArray() override { ::operator delete[](data_, std::align_val_t{kAlignment}); }
  CpuArray(const CpuArray&) = delete;
  CpuArray& operator=(const CpuArray&) = delete;

  absl::Span<float> span() override { return {data_, static_cast<size_t>(size_)}; }

 private:
  static constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

  float* const data_;
  const int64_t size_;
};

class SnapshotOnHost final : public Snapshot {
 public:
  explicit SnapshotOnHost(std::vector<std::vector<float>> arrays) : arrays_(std::move(arrays)) {}

  absl::StatusOr<std::vector<std::vector<float>>> Take() override { return std::move(arrays_); }

 private:
  std::vector<std::vector<float>> arrays_;
};

bool FiniteOnHost(absl::Span<const float> values) {
  return std::isfinite(LargestMagnitude(values));
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(int threads) : cpu_{.threads = threads} {}

  absl::StatusOr<std::unique_ptr<Array>> Allocate(int64_t size) override {
    try {
      return std::make_unique<CpuArray>(size);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for an array of ", size, " floats"));
    }
  }

  absl::StatusOr<std::unique_ptr<Network>> Compile(absl::Span<const model::CheckedLayer> layers,
                                                   const NetworkOptions& options,
                                                   absl::Span<const float> values,
                                                   absl::Span<float> gradients) override {
    DP_CHECK(!layers.empty() && options.batch_size > 0);
    DP_RETURN_IF_ERROR(CheckPrecision(options.precision));
    try {
      auto network = std::make_unique<CpuNetwork>(cpu_, layers, options, values, gradients);
      DP_RETURN_IF_ERROR(cpu_.failure);
      return network;
    } catch (const dnnl::error& error) {
      return Refused(error, options.batch_size);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for the model at batch size ", options.batch_size));
    }
  }

  absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
      const OptimizerOptions& options, const ParameterLayout& layout, absl::Span<float> values,
      absl::Span<const float> gradients) override {
    try {
      return MakeHostOptimizer(options, layout, values, gradients);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for the optimizer's state of ", values.size(), " parameters"));
    }
  }

  absl::StatusOr<std::unique_ptr<StepProgram>> MakeStepProgram(const StepProgram::Parts&) override {
    return nullptr;
  }

  void Accumulate(absl::Span<const float> from, bool first, absl::Span<float> sum) override {
    DP_CHECK(from.size() == sum.size());
    if (first) {
      std::copy(from.begin(), from.end(), sum.begin());
    } else {
      std::transform(from.begin(), from.end(), sum.begin(), sum.begin(),
                     [](float a, float b) { return b + a; });
    }
  }
  void Write(absl::Span<const float> host, absl::Span<float> array) override {
    DP_CHECK(host.size() == array.size());
    std::copy(host.begin(), host.end(), array.begin());
  }
  void Read(absl::Span<const float> array, absl::Span<float> host) const override {
    DP_CHECK(host.size() == array.size());
    std::copy(array.begin(), array.end(), host.begin());
  }

  absl::StatusOr<bool> AllFinite(absl::Span<const float> array) const override {
    return FiniteOnHost(array);
  }

  absl::Status status() const override { return cpu_.failure; }
  void* stream() const override { return nullptr; }

 private:
  static absl::Status CheckPrecision(Precision precision) {
    if (precision == Precision::kTf32) {
      return absl::UnimplementedError(
          "precision tf32 is computed on GPUs, and this rank computes on a CPU");
    }
    if (precision == Precision::kFloat32 || CpuHasBfloat16()) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat("precision bf16 needs a processor with AVX512-BF16, and this one has ",
                     CpuInstructionSet(), "; train in float32, or elsewhere"));
  }

  static absl::Status Refused(const dnnl::error& error, int batch_size) {
    const std::string what =
        absl::StrCat("oneDNN refuses the model at batch size ", batch_size, ": ", error.what());
    if (error.status == dnnl_out_of_memory) return absl::ResourceExhaustedError(what);
    return absl::UnimplementedError(what);
  }

  CpuStream cpu_;
};

}  // namespace

std::string CpuInstructionSet() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return absl::StrCat("isa-", static_cast<int>(dnnl::get_effective_cpu_isa()));
  }
}

// oneDNN emulates bfloat16 on older processors, slower than float32.
bool CpuHasBfloat16() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx512_core_bf16:
    case dnnl::cpu_isa::avx512_core_amx:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<std::vector<float>> ReadArray(const Device& device, absl::Span<const float> array) {
  std::vector<float> values(array.size());
  device.Read(array, absl::MakeSpan(values));
  DP_RETURN_IF_ERROR(device.status());
  return values;
}

std::unique_ptr<Snapshot> HostSnapshot(std::vector<std::vector<float>> arrays) {
  return std::make_unique<SnapshotOnHost>(std::move(arrays));
}

absl::StatusOr<std::unique_ptr<Snapshot>> Device::TakeSnapshot(
    absl::Span<const absl::Span<const float>> arrays) const {
  std::vector<std::vector<float>> contents;
  for (const absl::Span<const float> array : arrays) {
    DP_ASSIGN_OR_RETURN(contents.emplace_back(), ReadArray(*this, array));
  }
  return HostSnapshot(std::move(contents));
}

absl::StatusOr<bool> Device::AllFinite(absl::Span<const float> array) const {
  DP_ASSIGN_OR_RETURN(const std::vector<float> values, ReadArray(*this, array));
  return FiniteOnHost(values);
}

absl::StatusOr<std::unique_ptr<Device>> OpenCpu(int threads) {
  if (threads < 1 || threads > kThreadsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads per rank is ", threads, "; it must be 1 to ", kThreadsMax));
  }
  SetComputeThreads(threads);
  try {
    return std::make_unique<CpuDevice>(threads);
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat("oneDNN does not start: ", error.what()));
  }
}

}  // namespace dp::engine
