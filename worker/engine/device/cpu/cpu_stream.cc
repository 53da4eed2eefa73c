#include "worker/engine/device/cpu/cpu_stream.h"

#include <utility>

#include "base/check.h"

// A function of the OpenMP runtime that oneDNN links. Declared here because a compiler other than
// the one that brought that runtime may have no omp.h.
extern "C" void omp_set_num_threads(int threads);

namespace dp::engine {

void SetComputeThreads(int threads) { omp_set_num_threads(threads); }

void CpuStream::Run(const dnnl::primitive& primitive,
                    const std::unordered_map<int, dnnl::memory>& arguments) {
  bool ran = true;
  try {
    primitive.execute(stream, arguments);
  } catch (const dnnl::error&) {
    ran = false;
  }
  DP_CHECK(ran);
}

dnnl::memory::desc PlainDesc(int batch_size, const model::Shape& shape) {
  using dnnl::memory;
  if (shape.size() <= 2) {
    const memory::dim rows = shape.size() == 2 ? batch_size * shape[0] : batch_size;
    return {{rows, shape.back()}, memory::data_type::f32, memory::format_tag::nc};
  }
  memory::dims dims = {batch_size};
  dims.insert(dims.end(), shape.begin(), shape.end());
  memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
  return {dims, memory::data_type::f32, strides};
}

Activation MakeActivation(const CpuStream& cpu, const dnnl::memory::desc& desc,
                          bool needs_gradient) {
  Activation activation{.value = dnnl::memory(desc, cpu.engine)};
  if (needs_gradient) activation.gradient = dnnl::memory(desc, cpu.engine);
  return activation;
}

Formatted::Formatted(CpuStream& cpu, dnnl::memory home, const dnnl::memory::desc& wanted)
    : cpu_(cpu), home_(std::move(home)), memory_(home_) {
  if (home_.get_desc() == wanted) return;
  memory_ = dnnl::memory(wanted, cpu.engine);
  fetch_ = dnnl::reorder(home_, memory_);
  store_ = dnnl::reorder(memory_, home_);
}

void Formatted::Fetch() {
  if (fetch_) cpu_.Run(fetch_, {{DNNL_ARG_FROM, home_}, {DNNL_ARG_TO, memory_}});
}

void Formatted::Store() {
  if (store_) cpu_.Run(store_, {{DNNL_ARG_FROM, memory_}, {DNNL_ARG_TO, home_}});
}

FormattedInput::FormattedInput(CpuStream& cpu, const Activation& in,
                               const dnnl::memory::desc& wanted)
    : value_(cpu, in.value, wanted) {
  if (in.needs_gradient()) gradient_.emplace(cpu, in.gradient, wanted);
}

const float* FormattedInput::Fetch() {
  value_.Fetch();
  return Floats(value_.memory());
}

float* FormattedInput::gradient() const {
  return gradient_ ? Floats(gradient_->memory()) : nullptr;
}

float* FormattedInput::FetchGradient() {
  if (gradient_) gradient_->Fetch();
  return gradient();
}

void FormattedInput::Store() {
  if (gradient_) gradient_->Store();
}

float* Floats(const dnnl::memory& memory) { return static_cast<float*>(memory.get_data_handle()); }

absl::Span<float> Values(const dnnl::memory& memory) {
  return {Floats(memory), memory.get_desc().get_size() / sizeof(float)};
}

}  // namespace dp::engine
