#include "worker/engine/device/cpu/cpu_optimizer.h"

#include <variant>
#include <vector>

#include "base/check.h"
#include "base/overloaded.h"

namespace dp::engine {
namespace {

// The memory that an optimizer reads and writes.
struct Flat {
  absl::Span<float> values;
  absl::Span<const float> gradients;
};

class CpuSgd : public Optimizer {
 public:
  CpuSgd(const SgdOptions& options, const Flat& flat)
      : options_(options), flat_(flat), velocity_(flat.values.size()) {}

  void Step(const OptimizerStep& step) override {
    SgdOptions options = options_;
    options.learning_rate *= step.learning_rate_factor;
    SgdStep(options, flat_.gradients, absl::MakeSpan(velocity_), flat_.values);
  }
  std::vector<OptimizerState> state() override { return {{"velocity", absl::MakeSpan(velocity_)}}; }

 private:
  const SgdOptions options_;
  const Flat flat_;
  std::vector<float> velocity_;
};

class CpuAdamW : public Optimizer {
 public:
  CpuAdamW(const AdamWOptions& options, const ParameterLayout& layout, const Flat& flat)
      : options_(options),
        layout_(layout),
        flat_(flat),
        first_(flat.values.size()),
        second_(flat.values.size()) {}

  void Step(const OptimizerStep& step) override {
    AdamWOptions options = options_;
    options.learning_rate *= step.learning_rate_factor;
    AdamWStep(options, step.number, layout_, flat_.gradients,
              {absl::MakeSpan(first_), absl::MakeSpan(second_)}, flat_.values);
  }
  std::vector<OptimizerState> state() override {
    return {{"exp_avg", absl::MakeSpan(first_)}, {"exp_avg_sq", absl::MakeSpan(second_)}};
  }

 private:
  const AdamWOptions options_;
  const ParameterLayout layout_;
  const Flat flat_;
  std::vector<float> first_;
  std::vector<float> second_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeCpuOptimizer(const OptimizerOptions& options,
                                            const ParameterLayout& layout, absl::Span<float> values,
                                            absl::Span<const float> gradients) {
  DP_CHECK(values.size() == gradients.size());
  DP_CHECK(static_cast<int64_t>(values.size()) == layout.size);
  const Flat flat = {values, gradients};
  return std::visit(Overloaded{[&](const SgdOptions& sgd) -> std::unique_ptr<Optimizer> {
                                 return std::make_unique<CpuSgd>(sgd, flat);
                               },
                               [&](const AdamWOptions& adamw) -> std::unique_ptr<Optimizer> {
                                 return std::make_unique<CpuAdamW>(adamw, layout, flat);
                               }},
                    options.update);
}

}  // namespace dp::engine
