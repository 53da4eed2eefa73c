#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "dp/v1/job_spec.pb.h"
#include "proto/job/classifier_check.h"
#include "proto/job/field_check.h"

namespace dp {

// The shape and classes of the samples; none if the data is not visible here. Data is on the
// workers' hosts, and only they can report it missing.
using FormOfSamples = std::function<std::optional<SampleForm>(const v1::DataSpec& data)>;

// Checks the values of a job whose defaults are filled in (job_defaults.h). dpctl checks a job
// before it sends the job; the coordinator checks each job that it receives. Pure, except for
// `form_of_samples`.
// Errors: InvalidArgument as FieldOrigins::Error, with the field, its value and what is allowed;
// for layers that do not fit, the layer and both shapes.
absl::Status CheckJob(const v1::JobSpec& spec, const FieldOrigins& origins,
                      const FormOfSamples& form_of_samples);

}  // namespace dp
