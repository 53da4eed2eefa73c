#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/model/shape.h"
#include "dp/v1/job_spec.pb.h"
#include "proto/job/field_check.h"

namespace dp {

// The shape of one sample in a directory; none if the directory is not visible here. Data is on the
// workers' hosts, and only they can report it missing.
using SampleShape = std::function<std::optional<model::Shape>(const std::string& dir)>;

// Checks the values of a job whose defaults are filled in (job_defaults.h). dpctl checks a job
// before it sends the job; the coordinator checks each job that it receives. Pure, except for
// `sample_shape`.
// Errors: InvalidArgument as FieldOrigins::Error, with the field, its value and what is allowed;
// for layers that do not fit, the layer and both shapes.
absl::Status CheckJob(const v1::JobSpec& spec, const FieldOrigins& origins,
                      const SampleShape& sample_shape);

}  // namespace dp
