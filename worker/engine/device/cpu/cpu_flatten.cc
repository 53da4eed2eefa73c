#include <optional>

#include "worker/engine/device/cpu/cpu_layer.h"

namespace dp::engine {
namespace {

using dnnl::memory;

// In plain order, flattening is only another description of the same memory.
class CpuFlatten : public CpuLayer {
 public:
  explicit CpuFlatten(const CpuLayerInput& input)
      : in_(input.cpu, input.in.value, PlainDesc(input.batch_size, input.layer.in)) {
    const memory::desc flat = PlainDesc(input.batch_size, input.layer.out);
    out_.value = memory(flat, input.cpu.engine, in_.memory().get_data_handle());
    if (!input.in.needs_gradient()) return;
    in_gradient_.emplace(input.cpu, input.in.gradient, PlainDesc(input.batch_size, input.layer.in));
    out_.gradient = memory(flat, input.cpu.engine, in_gradient_->memory().get_data_handle());
  }

  void Forward(const Batch&, Mode) override { in_.Fetch(); }
  void Backward(const std::function<void()>&) override {
    if (in_gradient_) in_gradient_->Store();
  }

 private:
  Formatted in_;
  std::optional<Formatted> in_gradient_;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuLayer(const model::Flatten&, const CpuLayerInput& input) {
  return std::make_unique<CpuFlatten>(input);
}

}  // namespace dp::engine
