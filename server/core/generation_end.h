#pragma once

#include <string>

#include "absl/time/time.h"
#include "server/core/job.h"

// How the generation of a job comes to its end: by the first failure, which is its root cause. Pure
// but for `job`.

namespace dp::core {

// "rank 2 on worker node1 (host a)".
std::string Whereabouts(const Job& job, int rank);

// With where the rank is, and how it ended where it has.
Failure FailureOf(const Job& job, int rank, FailureClass failure_class, std::string message);

// Decides the end of a generation, once.
void EndGeneration(Job& job, Failure failure, absl::Time at);

}  // namespace dp::core
