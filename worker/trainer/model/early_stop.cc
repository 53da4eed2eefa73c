#include "worker/trainer/model/early_stop.h"

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/evaluation.h"

namespace dp::trainer {

EarlyStopState Observe(const EarlyStopPlan& plan, const EarlyStopState& before,
                       const Evaluation& evaluation, int64_t step) {
  EarlyStopState state = before;
  if (state.metric != plan.metric) state = {.metric = plan.metric};
  if (step <= state.last_step) return state;
  state.last_step = step;
  const std::optional<double> value = ValueOf(plan.metric, evaluation);
  const bool better =
      value && (!state.best || Improves(plan.metric, *value, *state.best, plan.min_delta));
  if (!better) {
    ++state.without;
    return state;
  }
  state.best = value;
  state.best_step = step;
  state.without = 0;
  return state;
}

std::optional<std::string> WhyStopped(const EarlyStopPlan& plan, const EarlyStopState& state) {
  if (state.metric != plan.metric || state.without < plan.patience) return std::nullopt;
  const std::string evaluations =
      absl::StrCat(state.without, state.without == 1 ? " evaluation" : " evaluations");
  if (!state.best) {
    return absl::StrCat(NameOf(plan.metric), " of the test set was no number in ", evaluations);
  }
  return absl::StrCat(NameOf(plan.metric), " of the test set has not improved on ", *state.best,
                      " of step ", state.best_step,
                      plan.min_delta > 0 ? absl::StrCat(" by more than ", plan.min_delta) : "",
                      " in ", evaluations);
}

}  // namespace dp::trainer
