#include "proto/convert/restart_defaults.h"

#include "proto/convert/time.h"

namespace dp {

void FillRestart(v1::JobSpec& spec) {
  v1::RestartSpec& restart = *spec.mutable_restart();
  if (!restart.has_max_restarts()) restart.set_max_restarts(spec.command().max_restarts());
  if (spec.has_command() && spec.command().max_restarts() == 0) {
    spec.mutable_command()->set_max_restarts(restart.max_restarts());
  }
  if (!restart.has_infra()) restart.set_infra(kInfraRestarts);
  if (!restart.has_hang()) restart.set_hang(kHangRestarts);
  if (!restart.has_startup()) restart.set_startup(kStartupRestarts);
  if (!restart.has_window()) *restart.mutable_window() = ToProto(kRestartWindow);
}

}  // namespace dp
