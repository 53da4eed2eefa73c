#include <utility>

#include "dp/ddp.h"
#include "worker/library/ddp/module_reducer.h"

namespace dp::distributed {

using library::ModuleReducer;

DistributedDataParallel::DistributedDataParallel(Module& module,
                                                 const DistributedDataParallelOptions& options)
    : reducer_(std::make_unique<ModuleReducer>(module, options)) {}

DistributedDataParallel::DistributedDataParallel(DistributedDataParallel&&) noexcept = default;
DistributedDataParallel::~DistributedDataParallel() = default;

void DistributedDataParallel::begin_forward() { reducer().BeginForward(); }
void DistributedDataParallel::gradient_ready(size_t parameter) {
  reducer().GradientReady(parameter);
}
void DistributedDataParallel::finish_backward() { reducer().FinishBackward(); }

DistributedDataParallel::NoSync::NoSync(ModuleReducer& reducer)
    : reducer_(&reducer), before_(reducer.SetSync(false)) {}
DistributedDataParallel::NoSync::NoSync(NoSync&& from) noexcept
    : reducer_(std::exchange(from.reducer_, nullptr)), before_(from.before_) {}
DistributedDataParallel::NoSync::~NoSync() {
  if (reducer_ != nullptr) reducer_->SetSync(before_);
}
ModuleReducer& DistributedDataParallel::reducer() const {
  if (reducer_ != nullptr) return *reducer_;
  throw DistError(ErrorKind::kWrongState,
                  "the DistributedDataParallel has been moved from; use the one that it became");
}

DistributedDataParallel::NoSync DistributedDataParallel::no_sync() { return NoSync(reducer()); }

bool DistributedDataParallel::require_backward_grad_sync() const { return reducer().sync(); }

void DistributedDataParallel::join(const std::function<void()>& train, const JoinOptions& options) {
  reducer().Join(train, options);
}

void DistributedDataParallel::register_comm_hook(CommHook hook) {
  reducer().SetHook(std::move(hook));
}

std::vector<MutableElements> DistributedDataParallel::gradients() { return reducer().Gradients(); }

void DistributedDataParallel::zero_grad() { reducer().ZeroGradients(); }

double DistributedDataParallel::clip_grad_norm(double max_norm) {
  return reducer().ClipGradients(max_norm);
}

const std::vector<bool>& DistributedDataParallel::used_parameters() const {
  return reducer().used_parameters();
}

size_t DistributedDataParallel::buckets() const { return reducer().buckets(); }

}  // namespace dp::distributed
