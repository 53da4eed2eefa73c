#pragma once

#include <optional>

#include "base/data/sample_source.h"
#include "dp/v1/job_spec.pb.h"

namespace dp {

// The files that a job's samples of numbers lie in. None for kinds without such files: texts,
// folders of images, synthetic samples and kinds of later releases. Pure.
std::optional<data::SampleSource> SourceOf(
    const v1::DataSpec& spec, const v1::ModelSpec& model = v1::ModelSpec::default_instance());

// Whether the model takes arrays of two axes as channels x places, and not as images of one
// channel. The first layer that takes only one of them decides. Pure.
bool TakesTwoAxes(const v1::ModelSpec& model);

}  // namespace dp
