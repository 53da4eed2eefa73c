#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/model/shape.h"
#include "client/job/job_file.h"

namespace dp::client {

// The shape of one sample in a directory; none if the directory is not visible here. Data is on the
// workers' hosts, and only they can report it missing.
using SampleShape = std::function<std::optional<model::Shape>(const std::string& dir)>;

// Checks the values of a job whose defaults are filled in (job_defaults.h). Pure, except for
// `sample_shape`.
// Errors: InvalidArgument with the place, the field, its value and what is allowed; for layers that
// do not fit, the layer and both shapes.
absl::Status CheckJob(const JobFile& job, const SampleShape& sample_shape);

}  // namespace dp::client
