#include "server/rpc/job_secrets.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/program/core_dumps.h"
#include "base/security/identity.h"
#include "base/status.h"
#include "proto/job/secret_check.h"

namespace dp::server {
namespace {

// A name has no zero byte, so no two secrets of a coordinator have the same place.
std::string PlaceOf(const std::string& request_id, const std::string& name) {
  return absl::StrCat("secret/", request_id, absl::string_view("\0", 1), name);
}

std::string Lost(const core::Job& job, const std::string& name, const absl::Status& why) {
  const absl::string_view remedy =
      absl::IsFailedPrecondition(why)
          ? "restore secret.key of the coordinator's DIR/identity from a backup, or submit the job "
            "again"
          : "submit the job again";
  return absl::StrCat("secret ", name, " of job ", job.id.ToString(),
                      " cannot be opened: ", std::string(why.message()), "; ", remedy);
}

}  // namespace

bool MayHaveSecrets(const Caller& caller) {
  return caller.kind == Caller::Kind::kCertificate &&
         caller.identity.role == security::Role::kWorker;
}

absl::StatusOr<std::vector<core::SealedSecret>> SealSecrets(
    const v1::SubmitRequest& request, const std::optional<security::SealingKey>& key,
    const Caller& caller) {
  std::vector<core::SealedSecret> sealed;
  if (request.secrets().empty() && request.spec().secrets().empty()) return sealed;
  if (!key.has_value() || caller.kind == Caller::Kind::kInsecure) {
    return absl::FailedPreconditionError(
        "the job has secrets, and the call came in plain text; submit it over TLS, without "
        "--insecure");
  }
  ForbidCoreDumps();
  DP_RETURN_IF_ERROR(CheckSecrets(request.spec(), request.secrets()));
  for (const v1::Secret& secret : request.secrets()) {
    sealed.push_back(
        {secret.name(), key->Seal(secret.value(), PlaceOf(request.request_id(), secret.name()))});
  }
  return sealed;
}

void OpenSecrets(const core::Job& job, const std::optional<security::SealingKey>& key,
                 const Caller& caller, v1::AssignedRank* rank) {
  if (!key.has_value() || !MayHaveSecrets(caller)) {
    rank->set_no_secrets(absl::StrCat(
        "the coordinator gives the secrets of job ", job.id.ToString(),
        " only to workers that call over TLS with a worker's certificate; let this one join"));
    return;
  }
  ForbidCoreDumps();
  for (const core::SealedSecret& secret : job.secrets) {
    auto value = key->Open(secret.sealed, PlaceOf(job.request_id, secret.name));
    if (!value.ok()) {
      rank->clear_secrets();
      return rank->set_no_secrets(Lost(job, secret.name, value.status()));
    }
    v1::Secret* added = rank->add_secrets();
    added->set_name(secret.name);
    added->set_value(*std::move(value));
  }
}

}  // namespace dp::server
