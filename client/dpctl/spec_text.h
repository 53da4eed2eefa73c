#pragma once

#include <string>

#include "dp/v1/job_spec.pb.h"

namespace dp::ctl {

// A job's spec as a job file again, which ParseJobFile reads back to the same message: every value
// there is, with 0 and false; as JSON, also empty text and lists. Pure.
std::string SpecYaml(const v1::JobSpec& spec);
std::string SpecJson(const v1::JobSpec& spec);

}  // namespace dp::ctl
