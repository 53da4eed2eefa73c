#pragma once

#include <string>

#include "dp/v1/job_spec.pb.h"

namespace dp::ctl {

// A job's spec as a job file, which ParseJobFile reads back to the same message. It has every
// value, also 0 and false; as JSON, also empty texts and lists. `ranks` is left out where dpctl
// counts them when it submits the job. Pure.
std::string SpecYaml(const v1::JobSpec& spec);
std::string SpecJson(const v1::JobSpec& spec);

}  // namespace dp::ctl
