#pragma once

#include "dp/v1/inference.pb.h"
#include "dp/v1/job_spec.pb.h"
#include "worker/engine/data/dataset.h"

namespace dp::trainer {

// The description of a job's model for its files of weights. `train_set` is the job's, and `ranks`
// train it. Reads the names of classes and columns, which are left out if they cannot be read any
// more.
v1::TrainedModel DescribeTraining(const v1::JobSpec& job, const engine::Dataset& train_set,
                                  int ranks);

}  // namespace dp::trainer
