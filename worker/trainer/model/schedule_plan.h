#pragma once

#include "dp/v1/job_spec.pb.h"
#include "worker/engine/nn/learning_rate.h"

namespace dp::trainer {

// train.schedule as the engine takes it. Pure.
engine::LearningRateSchedule ScheduleOf(const v1::ScheduleSpec& spec);

}  // namespace dp::trainer
