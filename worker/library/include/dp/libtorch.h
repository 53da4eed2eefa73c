#pragma once

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dp/ddp.h"

// DistributedDataParallel for modules of LibTorch, on CPUs: docs/library.md. Compiled as part of
// the program, so it fits the LibTorch that the program uses. CMake's target dp::torch has both.

#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error \
    "this LibTorch has the old ABI of C++ strings; dp needs one with the new ABI, as PyTorch 2.15 has"
#endif

namespace dp::distributed::libtorch {

// The memory of a dense tensor on a CPU, for the collectives. `name` is for errors.
// Errors: kUnsupported its type, device or layout.
inline MutableElements elements_of(const ::torch::Tensor& tensor,
                                   const std::string& name = "the tensor") {
  const auto reject = [&](const std::string& why) {
    throw DistError(ErrorKind::kUnsupported, name + " " + why);
  };
  if (!tensor.device().is_cpu()) reject("is on " + tensor.device().str() + "; move it to the CPU");
  if (!tensor.is_non_overlapping_and_dense()) reject("is not dense; call contiguous()");
  const auto of = [&](DataType type) {
    return MutableElements(tensor.data_ptr(), static_cast<size_t>(tensor.numel()), type);
  };
  switch (tensor.scalar_type()) {
    case ::torch::kFloat:
      return of(DataType::kFloat32);
    case ::torch::kDouble:
      return of(DataType::kFloat64);
    case ::torch::kHalf:
      return of(DataType::kFloat16);
    case ::torch::kBFloat16:
      return of(DataType::kBfloat16);
    case ::torch::kInt:
      return of(DataType::kInt32);
    case ::torch::kLong:
      return of(DataType::kInt64);
    case ::torch::kByte:
    case ::torch::kBool:
      return of(DataType::kUint8);
    default:
      reject(std::string("is of ") + ::torch::toString(tensor.scalar_type()) +
             "; floats, int32, int64, uint8 and bool can be exchanged");
  }
  return of(DataType::kUint8);
}

// A module of LibTorch whose gradients are views of the memory that move_gradient offers.
class ModuleView : public Module {
 public:
  explicit ModuleView(const ::torch::nn::Module& module) {
    std::unordered_set<const void*> seen;  // a parameter may have several names
    for (const auto& named : module.named_parameters()) {
      if (!named.value().requires_grad()) continue;
      if (seen.insert(named.value().unsafeGetTensorImpl()).second) parameters_.push_back(named);
    }
    for (const auto& named : module.named_buffers())
      if (named.value().defined()) buffers_.push_back(named);
    views_.resize(parameters_.size());
  }

  std::vector<Parameter> parameters() override {
    std::vector<Parameter> all;
    for (const auto& named : parameters_)
      all.push_back({named.key(), named.value().sizes().vec(), elements(named)});
    return all;
  }
  std::vector<Buffer> buffers() override {
    std::vector<Buffer> all;
    for (const auto& named : buffers_)
      all.push_back({named.key(), named.value().sizes().vec(), elements(named)});
    return all;
  }
  bool move_gradient(size_t index, MutableElements memory) override {
    ::torch::Tensor& parameter = parameters_[index].value();
    const ::torch::Tensor before = std::exchange(
        views_[index], ::torch::from_blob(memory.data, parameter.sizes(), parameter.strides(),
                                          parameter.options().requires_grad(false)));
    // The memory holds what the view before held. A gradient from elsewhere is copied.
    const ::torch::Tensor gradient = parameter.grad();
    if (!gradient.defined()) return true;
    if (!before.defined() || !gradient.is_same(before)) views_[index].copy_(gradient);
    parameter.mutable_grad() = views_[index];
    return true;
  }

  size_t size() const { return parameters_.size(); }
  ::torch::Tensor& parameter(size_t index) { return parameters_[index].value(); }
  // Makes the gradient a view again, with its values; optimizers may have removed it.
  void take_gradient(size_t index) {
    ::torch::Tensor& gradient = parameter(index).mutable_grad();
    if (gradient.is_same(views_[index])) return;
    if (gradient.defined()) {
      views_[index].copy_(gradient);
    } else {
      views_[index].zero_();
    }
    gradient = views_[index];
  }
  // Without a gradient the parameter counts as zero, and still has none.
  void count_as_zero_without_gradient(size_t index) {
    if (!parameter(index).grad().defined()) views_[index].zero_();
  }
  void show_gradient(size_t index) { parameter(index).mutable_grad() = views_[index]; }

 private:
  using Named = ::torch::OrderedDict<std::string, ::torch::Tensor>::Item;

  static MutableElements elements(const Named& named) {
    return elements_of(named.value(), named.key());
  }

  std::vector<Named> parameters_;
  std::vector<Named> buffers_;
  std::vector<::torch::Tensor> views_;  // by parameter: its gradient
};

// Wraps a module of LibTorch: every backward of its outputs leaves the mean over the ranks in the
// gradients of its parameters. The options and the rules are those of
// dp::DistributedDataParallel, whose calls this makes at the right moments.
//
//   auto net = std::make_shared<Net>();
//   dp::libtorch::DistributedDataParallel ddp(net);
//   torch::optim::SGD optimizer(net->parameters(), 0.1);
//   ...
//   optimizer.zero_grad();
//   loss(ddp.forward(input), target).backward();
//   optimizer.step();
//
// Wrap the module after it has its types. Calls, and backward, come from one thread.
template <typename ModuleType>
class DistributedDataParallel {
 public:
  explicit DistributedDataParallel(std::shared_ptr<ModuleType> module,
                                   const DistributedDataParallelOptions& options = {})
      : module_(std::move(module)), replica_(std::make_shared<Replica>(*module_, options)) {
    for (size_t p = 0; p < replica_->view.size(); ++p) hook(p);
  }
  // A module holder, as TORCH_MODULE defines them.
  explicit DistributedDataParallel(const ::torch::nn::ModuleHolder<ModuleType>& holder,
                                   const DistributedDataParallelOptions& options = {})
      : DistributedDataParallel(holder.ptr(), options) {}

  // The module's forward. In training it first takes rank 0's buffers.
  template <typename... Inputs>
  auto forward(Inputs&&... inputs) {
    auto& ddp = replica().ddp;
    if (module_->is_training() && ::torch::GradMode::is_enabled()) ddp.begin_forward();
    return module_->forward(std::forward<Inputs>(inputs)...);
  }

  ModuleType& module() const {
    (void)replica();
    return *module_;
  }

  [[nodiscard]] auto no_sync() { return replica().ddp.no_sync(); }
  void join(const std::function<void()>& train, const JoinOptions& options = {}) {
    replica().ddp.join(train, options);
  }
  void register_comm_hook(CommHook hook) { replica().ddp.register_comm_hook(std::move(hook)); }
  // By index in the module's parameters() that learn.
  const std::vector<bool>& used_parameters() const { return replica().ddp.used_parameters(); }
  size_t buckets() const { return replica().ddp.buckets(); }

 private:
  // A shared pointer, whose type depends on LibTorch's release.
  using Accumulator =
      decltype(::torch::autograd::impl::grad_accumulator(std::declval<const ::torch::Tensor&>()));

  // Shared with autograd's hooks, which know it weakly.
  struct Replica : std::enable_shared_from_this<Replica> {
    Replica(const ::torch::nn::Module& module, const DistributedDataParallelOptions& options)
        : view(module), ddp(view, options), reported(view.size()) {}

    void gradient_ready(size_t parameter) {
      const ::torch::NoGradGuard no_grad;
      if (!finishes) {
        finishes = true;
        ::torch::autograd::Engine::get_default_engine().queue_callback(
            [self = this->shared_from_this()] { self->finish_backward(); });
      }
      view.take_gradient(parameter);
      reported[parameter] = true;
      ddp.gradient_ready(parameter);
    }

    void finish_backward() {
      const ::torch::NoGradGuard no_grad;
      const std::vector<bool> reached = std::exchange(reported, std::vector<bool>(view.size()));
      finishes = false;
      for (size_t p = 0; p < reached.size(); ++p)
        if (!reached[p]) view.count_as_zero_without_gradient(p);
      ddp.finish_backward();
      if (!ddp.require_backward_grad_sync()) return;
      // Another rank may have used a parameter that this one has not.
      for (size_t p = 0; p < reached.size(); ++p)
        if (!reached[p] && ddp.used_parameters()[p]) view.show_gradient(p);
    }

    ModuleView view;
    distributed::DistributedDataParallel ddp;
    std::vector<bool> reported;  // by parameter, in this backward
    bool finishes = false;       // the end of this backward will call finish_backward
  };

  // Throws kWrongState once this was moved from.
  Replica& replica() const {
    if (replica_ != nullptr) return *replica_;
    throw DistError(ErrorKind::kWrongState,
                    "the DistributedDataParallel has been moved from; use the one that it became");
  }

  void hook(size_t parameter) {
    using ::torch::autograd::variable_list;
    const Accumulator accumulator =
        ::torch::autograd::impl::grad_accumulator(replica_->view.parameter(parameter));
    accumulator->add_post_hook(std::make_unique<::torch::autograd::utils::LambdaPostHook>(
        [weak = std::weak_ptr(replica_), parameter](const variable_list& outputs,
                                                    const variable_list&) {
          if (const auto replica = weak.lock()) replica->gradient_ready(parameter);
          return outputs;
        }));
    accumulators_.push_back(accumulator);
  }

  std::shared_ptr<ModuleType> module_;
  std::shared_ptr<Replica> replica_;
  // Autograd has an accumulator only as long as somebody holds it.
  std::vector<Accumulator> accumulators_;
};

}  // namespace dp::distributed::libtorch
