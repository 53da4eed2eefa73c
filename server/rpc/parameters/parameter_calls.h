#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/name.h"
#include "base/rank.h"
#include "server/access/admission.h"
#include "server/core/job_registry.h"
#include "server/driver/driver.h"
#include "server/parameters/parameters.h"
#include "server/parameters/set_key.h"

// The checks that the calls of the parameter service share.

namespace dp::server {

template <typename Request>
SetKey KeyOf(const Request& request) {
  return {.job = JobId(request.job()), .name = request.name()};
}

// Errors: InvalidArgument the key names no set, or two.
inline absl::Status CheckKey(const SetKey& key) {
  if (key.job.valid() && key.name.empty()) return absl::OkStatus();
  if (key.job.valid()) {
    return absl::InvalidArgumentError("job and name: give one of them, not both");
  }
  if (IsName(key.name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("name: '", key.name, "' is no name of a set; it must be ", kNameRule));
}

// Errors: InvalidArgument it is empty, or too long to be kept.
inline absl::Status CheckRequestId(const std::string& id) {
  constexpr size_t kBytesMax = 128;
  if (!id.empty() && id.size() <= kBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("request_id has ", id.size(), " bytes; give 1 to ", kBytesMax));
}

// The same call about a set: of a job, or of the user to whom the named set belongs.
inline Admission About(const Admission& admission, const SetKey& key, const ParameterStore& store) {
  if (key.job.valid()) return admission.About(AccessObject::Of(key.job));
  const std::string owner = store.OwnerOf(key);
  return owner.empty() ? admission : admission.About(AccessObject::OfUser(owner));
}

// A rule that no row of the table has: ranks have the set of their job, and no other. Also checks
// that there is such a job. Errors: NotFound; PermissionDenied.
inline absl::Status CheckSet(const Admission& admission, const SetKey& key, const View& view) {
  if (key.job.valid()) {
    return view.coordinator.job(key.job) == nullptr ? core::UnknownJob(key.job) : absl::OkStatus();
  }
  if (admission.caller().kind != Caller::Kind::kRank) return absl::OkStatus();
  return admission.Refused(absl::PermissionDeniedError(
      "a rank has the parameters of its own job, and no named sets; give its job"));
}

template <typename Request>
core::RankKey RankKeyOf(const Request& request) {
  return {JobId(request.job()), Generation(request.generation()), request.rank()};
}

// Whether the rank is of the job's current generation. Errors: NotFound; FailedPrecondition names
// both generations.
template <typename Request>
absl::Status CheckRankOf(const Request& request, const View& view) {
  const core::Job* const job = view.coordinator.job(JobId(request.job()));
  if (job == nullptr) return core::UnknownJob(JobId(request.job()));
  return core::CheckGeneration(*job, Generation(request.generation()));
}

}  // namespace dp::server
