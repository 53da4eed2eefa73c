#include "server/journal/convert_handover.h"

namespace dp::server {

journal::AskHandover::Cause ToProto(core::HandoverCause cause) {
  switch (cause) {
    case core::HandoverCause::kMove:
      return journal::AskHandover::CAUSE_MOVE;
    case core::HandoverCause::kDeadline:
      return journal::AskHandover::CAUSE_DEADLINE;
    case core::HandoverCause::kPreempt:
      return journal::AskHandover::CAUSE_PREEMPT;
    case core::HandoverCause::kGrow:
      return journal::AskHandover::CAUSE_GROW;
  }
  return journal::AskHandover::CAUSE_MOVE;
}

absl::StatusOr<core::HandoverCause> FromProto(journal::AskHandover::Cause cause) {
  switch (cause) {
    case journal::AskHandover::CAUSE_MOVE:
      return core::HandoverCause::kMove;
    case journal::AskHandover::CAUSE_DEADLINE:
      return core::HandoverCause::kDeadline;
    case journal::AskHandover::CAUSE_PREEMPT:
      return core::HandoverCause::kPreempt;
    case journal::AskHandover::CAUSE_GROW:
      return core::HandoverCause::kGrow;
    default:
      return absl::DataLossError("a job hands over for a cause that this release does not know");
  }
}

}  // namespace dp::server
