#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The two ways to pass a Status on:
//
//   DP_RETURN_IF_ERROR(store.Set(key, value));
//   DP_ASSIGN_OR_RETURN(World world, client.AwaitWorld(job, since));

#define DP_RETURN_IF_ERROR(expression)       \
  do {                                       \
    absl::Status dp_status_ = (expression);  \
    if (!dp_status_.ok()) return dp_status_; \
  } while (false)

#define DP_STATUS_CONCAT_INNER(a, b) a##b
#define DP_STATUS_CONCAT(a, b) DP_STATUS_CONCAT_INNER(a, b)

#define DP_ASSIGN_OR_RETURN(target, expression) \
  DP_ASSIGN_OR_RETURN_INNER(DP_STATUS_CONCAT(dp_statusor_, __LINE__), target, expression)

#define DP_ASSIGN_OR_RETURN_INNER(statusor, target, expression) \
  auto statusor = (expression);                                 \
  if (!statusor.ok()) return statusor.status();                 \
  target = *std::move(statusor)
