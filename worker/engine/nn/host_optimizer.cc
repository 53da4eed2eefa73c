#include "worker/engine/nn/host_optimizer.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/overloaded.h"
#include "worker/engine/nn/clip_factor.h"
#include "worker/engine/nn/gradient_norm.h"
#include "worker/engine/nn/moving_average.h"
#include "worker/engine/nn/update_group.h"

namespace dp::engine {
namespace {

// The part that all optimizers share: the memory that they read and write, and clipping.
class HostOptimizer : public Optimizer {
 public:
  struct Options {
    double clip_norm = 0;
    double average_decay = 0;
    ParameterLayout layout;
    absl::Span<float> values;
    absl::Span<const float> gradients;
  };
  explicit HostOptimizer(Options options)
      : options_(std::move(options)),
        trained_(TrainedRanges(options_.layout)),
        average_(options_.average_decay > 0 ? options_.values.size() : 0) {}

  void Step(const OptimizerStep& step) final {
    float factor = 1;
    if (options_.clip_norm > 0) {
      gradient_norm_ = GradientNorm(trained_, gradients());
      factor = ClipFactor(options_.clip_norm, gradient_norm_);
    }
    Update(step, factor);
    StepStatistics(options_.layout, gradients(), values());
    if (average_.empty()) return;
    UpdateAverage(options_.average_decay, /*first=*/step.number == 1, values(),
                  absl::MakeSpan(average_));
    CopyStatistics();
  }
  std::vector<OptimizerState> state() final {
    std::vector<OptimizerState> arrays = own_state();
    if (!average_.empty()) arrays.push_back({kAverageName, absl::MakeSpan(average_)});
    return arrays;
  }
  float gradient_norm() const final { return gradient_norm_; }

 protected:
  // Takes the step from the gradients times `gradient_factor`.
  virtual void Update(const OptimizerStep& step, float gradient_factor) = 0;
  virtual std::vector<OptimizerState> own_state() = 0;

  const ParameterLayout& layout() const { return options_.layout; }
  absl::Span<float> values() const { return options_.values; }
  absl::Span<const float> gradients() const { return options_.gradients; }

 private:
  // Statistics are averages already. torch's AveragedModel copies such buffers, too.
  void CopyStatistics() {
    for (const Parameter& p : options_.layout.parameters) {
      if (!p.is_statistic()) continue;
      const absl::Span<const float> from = values().subspan(p.offset, p.size);
      std::copy(from.begin(), from.end(), average_.begin() + p.offset);
    }
  }

  const Options options_;
  const std::vector<ValueRange> trained_;
  std::vector<float> average_;  // empty: none is kept
  float gradient_norm_ = 0;
};

class HostSgd final : public HostOptimizer {
 public:
  HostSgd(const SgdOptions& sgd, Options options)
      : HostOptimizer(std::move(options)), sgd_(sgd), velocity_(values().size()) {}

 private:
  std::vector<OptimizerState> own_state() override {
    return {{"velocity", absl::MakeSpan(velocity_)}};
  }
  void Update(const OptimizerStep& step, float gradient_factor) override {
    const double rate = sgd_.learning_rate * step.learning_rate_factor;
    SgdOptions sgd = sgd_;
    for (size_t i = 0; i < layout().parameters.size(); ++i) {
      const UpdateGroup group = GroupOf(layout().parameters[i], sgd_.weight_decay);
      if (group.frozen) continue;
      const ValueRange range = RangeOf(layout(), i);
      const auto part = [&range](const auto& flat) {
        return flat.subspan(range.first, range.size);
      };
      sgd.learning_rate = rate * group.learning_rate_factor;
      sgd.weight_decay = static_cast<float>(group.weight_decay);
      SgdStep(sgd, part(gradients()), part(absl::MakeSpan(velocity_)), part(values()),
              gradient_factor);
    }
  }

  const SgdOptions sgd_;
  std::vector<float> velocity_;
};

class HostAdamW final : public HostOptimizer {
 public:
  HostAdamW(const AdamWOptions& adamw, Options options)
      : HostOptimizer(std::move(options)),
        adamw_(adamw),
        first_(values().size()),
        second_(values().size()) {}

 private:
  std::vector<OptimizerState> own_state() override {
    return {{"exp_avg", absl::MakeSpan(first_)}, {"exp_avg_sq", absl::MakeSpan(second_)}};
  }
  void Update(const OptimizerStep& step, float gradient_factor) override {
    AdamWOptions adamw = adamw_;
    adamw.learning_rate *= step.learning_rate_factor;
    AdamWStep(adamw, step.number, layout(), gradients(),
              {absl::MakeSpan(first_), absl::MakeSpan(second_)}, values(), gradient_factor);
  }

  const AdamWOptions adamw_;
  std::vector<float> first_;
  std::vector<float> second_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeHostOptimizer(const OptimizerOptions& options,
                                             const ParameterLayout& layout,
                                             absl::Span<float> values,
                                             absl::Span<const float> gradients) {
  DP_CHECK(values.size() == gradients.size());
  DP_CHECK(static_cast<int64_t>(values.size()) == layout.size);
  HostOptimizer::Options shared = {options.clip_norm, options.average_decay, layout, values,
                                   gradients};
  return std::visit(Overloaded{[&](const SgdOptions& sgd) -> std::unique_ptr<Optimizer> {
                                 return std::make_unique<HostSgd>(sgd, std::move(shared));
                               },
                               [&](const AdamWOptions& adamw) -> std::unique_ptr<Optimizer> {
                                 return std::make_unique<HostAdamW>(adamw, std::move(shared));
                               }},
                    options.update);
}

}  // namespace dp::engine
