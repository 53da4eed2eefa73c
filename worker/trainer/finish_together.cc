#include "worker/trainer/finish_together.h"

#include <chrono>
#include <future>

#include "absl/types/span.h"

namespace dp::trainer {
namespace {

bool DoneWithin(const std::future<absl::Status>& work, absl::Duration time) {
  return work.wait_for(absl::ToChronoNanoseconds(time)) == std::future_status::ready;
}

}  // namespace

absl::Status FinishTogether(engine::Group& group, absl::Duration meet_every,
                            const std::function<absl::Status()>& work) {
  std::future<absl::Status> working;
  if (group.rank() == 0) working = std::async(std::launch::async, work);
  absl::Status met;
  float busy = 1.0f;
  while (met.ok() && busy > 0) {
    busy = working.valid() && !DoneWithin(working, meet_every) ? 1.0f : 0.0f;
    met = group.AllReduce(absl::MakeSpan(&busy, 1), engine::ReduceOp::kMax)->Wait();
  }
  return working.valid() ? working.get() : met;
}

}  // namespace dp::trainer
