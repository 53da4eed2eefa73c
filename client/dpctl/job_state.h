#pragma once

#include <string>

#include "dp/v1/jobs.pb.h"
#include "dp/v1/logs.pb.h"
#include "dp/v1/workers.pb.h"

// Enum values as dpctl prints them: RUNNING, JOINED, user. Pure.

namespace dp::ctl {

std::string NameOf(v1::JobState state);
std::string NameOf(v1::RankState state);
std::string NameOf(v1::WorkerState state);
// Lower case: "resources".
std::string NameOf(v1::PendingCode code);
std::string NameOf(v1::FailureClass failure_class);  // lower case; empty if unspecified
std::string NameOf(v1::LogStream stream);            // lower case

// "code 3" or "signal 9 (SIGKILL)"; empty if the process has not ended.
std::string ExitText(const v1::Exit& exit);

bool Finished(v1::JobState state);

}  // namespace dp::ctl
