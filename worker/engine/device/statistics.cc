#include "worker/engine/device/statistics.h"

#include <utility>
#include <vector>

namespace dp::engine {
namespace {

class StatisticsToo : public Optimizer {
 public:
  StatisticsToo(std::unique_ptr<Optimizer> trained, ParameterLayout layout,
                absl::Span<const float> gradients, absl::Span<float> values)
      : trained_(std::move(trained)),
        layout_(std::move(layout)),
        gradients_(gradients),
        values_(values) {}

  void Step(int64_t number) override {
    trained_->Step(number);
    StepStatistics(layout_, gradients_, values_);
  }
  std::vector<OptimizerState> state() override { return trained_->state(); }

 private:
  const std::unique_ptr<Optimizer> trained_;
  const ParameterLayout layout_;
  const absl::Span<const float> gradients_;
  const absl::Span<float> values_;
};

}  // namespace

std::unique_ptr<Optimizer> WithStatistics(std::unique_ptr<Optimizer> trained,
                                          const ParameterLayout& layout,
                                          absl::Span<const float> gradients,
                                          absl::Span<float> values) {
  if (layout.Trained().size == layout.size) return trained;
  return std::make_unique<StatisticsToo>(std::move(trained), layout, gradients, values);
}

}  // namespace dp::engine
