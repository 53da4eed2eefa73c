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

void DistributedDataParallel::begin_forward() { reducer_->BeginForward(); }
void DistributedDataParallel::gradient_ready(size_t parameter) {
  reducer_->GradientReady(parameter);
}
void DistributedDataParallel::finish_backward() { reducer_->FinishBackward(); }

DistributedDataParallel::NoSync::NoSync(ModuleReducer& reducer)
    : reducer_(&reducer), before_(reducer.SetSync(false)) {}
DistributedDataParallel::NoSync::NoSync(NoSync&& from) noexcept
    : reducer_(std::exchange(from.reducer_, nullptr)), before_(from.before_) {}
DistributedDataParallel::NoSync::~NoSync() {
  if (reducer_ != nullptr) reducer_->SetSync(before_);
}
DistributedDataParallel::NoSync DistributedDataParallel::no_sync() { return NoSync(*reducer_); }

bool DistributedDataParallel::require_backward_grad_sync() const { return reducer_->sync(); }

void DistributedDataParallel::join(const std::function<void()>& train, const JoinOptions& options) {
  reducer_->Join(train, options);
}

void DistributedDataParallel::register_comm_hook(CommHook hook) {
  reducer_->SetHook(std::move(hook));
}

std::vector<MutableElements> DistributedDataParallel::gradients() { return reducer_->Gradients(); }

void DistributedDataParallel::zero_grad() { reducer_->ZeroGradients(); }

double DistributedDataParallel::clip_grad_norm(double max_norm) {
  return reducer_->ClipGradients(max_norm);
}

const std::vector<bool>& DistributedDataParallel::used_parameters() const {
  return reducer_->used_parameters();
}

size_t DistributedDataParallel::buckets() const { return reducer_->buckets(); }

}  // namespace dp::distributed
