#pragma once

#include <optional>

#include "dp/v1/job_spec.pb.h"
#include "proto/job/classifier_check.h"

namespace dp::client {

// Shape, and classes or targets, of the samples of a job's training set, read from its files on
// this machine. None if the files cannot be read here, or are something else; the trainer reports
// why.
std::optional<SampleForm> FormOf(const v1::DataSpec& data);

}  // namespace dp::client
