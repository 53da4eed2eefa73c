#include "worker/engine/device/cpu/cpu_relu_gradient.h"

namespace dp::engine {
namespace {

dnnl::eltwise_backward::primitive_desc Desc(const CpuStream& cpu, const dnnl::memory::desc& desc) {
  constexpr auto kAlgorithm = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  const dnnl::eltwise_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kAlgorithm, desc, 0.0f}, cpu.engine);
  return {{kAlgorithm, desc, desc, 0.0f}, cpu.engine, forward};
}

}  // namespace

ReluGradient::ReluGradient(CpuStream& cpu, const Activation& out)
    : cpu_(cpu), out_(out), primitive_(Desc(cpu, out.value.get_desc())) {}

void ReluGradient::Run() {
  cpu_.Run(primitive_, {{DNNL_ARG_DST, out_.value},
                        {DNNL_ARG_DIFF_DST, out_.gradient},
                        {DNNL_ARG_DIFF_SRC, out_.gradient}});
}

}  // namespace dp::engine
