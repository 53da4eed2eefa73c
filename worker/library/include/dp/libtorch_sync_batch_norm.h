#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "dp/libtorch.h"

// Batch normalization over the samples of all ranks, for modules of LibTorch: docs/library.md.

namespace dp::distributed::libtorch {

// The group, as autograd keeps it for backward.
struct KeptGroup : ::torch::CustomClassHolder {
  explicit KeptGroup(ProcessGroup group_in) : group(std::move(group_in)) {}
  ProcessGroup group;
};

// Normalizes `input` by a mean and a deviation over all ranks, by channel. Its backward is a
// collective.
struct SyncBatchNormFunction : ::torch::autograd::Function<SyncBatchNormFunction> {
  using Context = ::torch::autograd::AutogradContext;
  using Tensor = ::torch::Tensor;

  // All axes but that of the channels.
  static std::vector<int64_t> axes_of(const Tensor& input) {
    std::vector<int64_t> axes = {0};
    for (int64_t axis = 2; axis < input.dim(); ++axis) axes.push_back(axis);
    return axes;
  }
  // A value for each channel, to be combined with `input`.
  static Tensor along(const Tensor& channels, const Tensor& input) {
    std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
    shape[1] = channels.numel();
    return channels.reshape(shape).to(input.scalar_type());
  }

  static Tensor forward(Context* context, const Tensor& input, const Tensor& weight,
                        const Tensor& bias, const Tensor& mean, const Tensor& inverse_deviation,
                        double count, const ProcessGroup& group) {
    context->save_for_backward({input, weight, mean, inverse_deviation});
    context->saved_data["count"] = count;
    context->saved_data["group"] =
        ::c10::IValue::make_capsule(::c10::make_intrusive<KeptGroup>(group));
    const Tensor scale = inverse_deviation * weight;
    return input * along(scale, input) + along(bias - mean * scale, input);
  }

  static ::torch::autograd::variable_list backward(Context* context,
                                                   ::torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    const double count = context->saved_data["count"].toDouble();
    const auto kept =
        ::c10::static_intrusive_pointer_cast<KeptGroup>(context->saved_data["group"].toCapsule());
    const Tensor& slope = gradients[0];
    const Tensor normalized = (input - along(mean, input)) * along(inverse, input);
    const Tensor bias_grad = slope.sum(axes_of(input), false, ::torch::kDouble);
    const Tensor weight_grad = (slope * normalized).sum(axes_of(input), false, ::torch::kDouble);
    Tensor sums = ::torch::stack({bias_grad, weight_grad});
    all_reduce(elements_of(sums), ReduceOp::kSum, kept->group);
    const Tensor means = sums / count;
    const Tensor input_grad =
        (slope - along(means[0], input) - normalized * along(means[1], input)) *
        along(inverse * weight, input);
    return {input_grad,
            weight_grad.to(weight.scalar_type()),
            bias_grad.to(weight.scalar_type()),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

// Takes the place of BatchNorm1d, 2d and 3d in a module that DistributedDataParallel wraps. The
// names of its values are those of BatchNorm's, so that weights load. In training, forward and
// backward are collectives of `group`, by default the default group; in evaluation it is BatchNorm.
class SyncBatchNormImpl : public ::torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  explicit SyncBatchNormImpl(const ::torch::nn::BatchNormOptions& options_in,
                             ProcessGroup group = {})
      : options(options_in), group_(std::move(group)) {
    reset();
  }

  void reset() override {
    const int64_t channels = options.num_features();
    weight = register_parameter("weight", ::torch::ones({channels}), options.affine());
    bias = register_parameter("bias", ::torch::zeros({channels}), options.affine());
    running_mean = register_buffer("running_mean", ::torch::zeros({channels}));
    running_var = register_buffer("running_var", ::torch::ones({channels}));
    num_batches_tracked =
        register_buffer("num_batches_tracked", ::torch::zeros({}, ::torch::kLong));
  }

  ::torch::Tensor forward(const ::torch::Tensor& input) {
    if (input.dim() < 2 || input.size(1) != options.num_features()) {
      throw DistError(ErrorKind::kInvalidArgument,
                      "SyncBatchNorm: the input has " + std::to_string(input.dim()) +
                          " axes; give samples x " + std::to_string(options.num_features()) +
                          " channels x positions");
    }
    if (!is_training()) {
      return ::torch::batch_norm(input, weight, bias, running_mean, running_var, false, 0,
                                 options.eps(), false);
    }
    const ProcessGroup group = group_ ? group_ : default_group();
    const auto [mean, variance, count] = statistics(input, group);
    if (count < 2) {
      throw DistError(ErrorKind::kWrongState,
                      "SyncBatchNorm: all ranks together have fewer than two values for a "
                      "channel; give two at least");
    }
    follow(mean, variance * (count / (count - 1)));
    return SyncBatchNormFunction::apply(input, weight, bias, mean,
                                        (variance + options.eps()).rsqrt(), count, group);
  }

  ::torch::nn::BatchNormOptions options;
  ::torch::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  // The mean, the variance and the number of values of each channel, over all ranks.
  std::tuple<::torch::Tensor, ::torch::Tensor, double> statistics(const ::torch::Tensor& input,
                                                                  const ProcessGroup& group) const {
    const ::torch::NoGradGuard no_grad;
    const int64_t channels = options.num_features();
    ::torch::Tensor mine = ::torch::zeros({1 + 2 * channels}, ::torch::kDouble);
    if (input.numel() > 0) {
      const auto axes = SyncBatchNormFunction::axes_of(input);
      const ::torch::Tensor wide = input.to(::torch::kDouble);
      mine[0] = static_cast<double>(input.numel() / channels);
      mine.slice(0, 1, 1 + channels).copy_(wide.mean(axes));
      mine.slice(0, 1 + channels).copy_(wide.var(axes, /*unbiased=*/false));
    }
    ::torch::Tensor all = ::torch::empty({group.size(), 1 + 2 * channels}, ::torch::kDouble);
    all_gather(elements_of(all), elements_of(mine), group);
    const ::torch::Tensor counts = all.slice(1, 0, 1);
    const double count = counts.sum().item<double>();
    const ::torch::Tensor shares = counts / count, means = all.slice(1, 1, 1 + channels);
    const ::torch::Tensor mean = (shares * means).sum(0);
    const ::torch::Tensor variance =
        (shares * (all.slice(1, 1 + channels) + (means - mean).square())).sum(0);
    return {mean, variance, count};
  }

  // Moves the running values towards those of a batch.
  void follow(const ::torch::Tensor& mean, const ::torch::Tensor& variance) {
    const ::torch::NoGradGuard no_grad;
    num_batches_tracked += 1;
    const double share = options.momentum().has_value()
                             ? *options.momentum()
                             : 1.0 / static_cast<double>(num_batches_tracked.item<int64_t>());
    running_mean.mul_(1 - share).add_(mean.to(running_mean.scalar_type()), share);
    running_var.mul_(1 - share).add_(variance.to(running_var.scalar_type()), share);
  }

  ProcessGroup group_;
};

// A holder: SyncBatchNorm norm(torch::nn::BatchNormOptions(64)).
TORCH_MODULE(SyncBatchNorm);

}  // namespace dp::distributed::libtorch
