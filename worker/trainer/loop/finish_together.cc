#include "worker/trainer/loop/finish_together.h"

#include <optional>

#include "absl/types/span.h"
#include "worker/trainer/side_work.h"

namespace dp::trainer {

absl::Status FinishTogether(engine::Group& group, absl::Duration meet_every,
                            const std::function<absl::Status()>& work) {
  std::optional<SideWork<absl::Status>> working;
  if (group.rank() == 0) working.emplace("finish", work);
  absl::Status met;
  float busy = 1.0f;
  while (met.ok() && busy > 0) {
    busy = working && !working->DoneWithin(meet_every) ? 1.0f : 0.0f;
    met = group.on_host().AllReduce(absl::MakeSpan(&busy, 1), engine::ReduceOp::kMax)->Wait();
  }
  return working ? working->Take() : met;
}

}  // namespace dp::trainer
