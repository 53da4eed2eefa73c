#include "client/dpctl/run/secret_flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/program/core_dumps.h"
#include "base/status.h"
#include "dp/v1/access.grpc.pb.h"
#include "proto/job/secret_check.h"

namespace dp::ctl {
namespace {

absl::Status CheckTakesSecrets(Context& context) {
  if (context.flags().credentials.insecure)
    return absl::FailedPreconditionError(
        "the job has secrets, and --insecure would send them in plain text; leave it out and log "
        "in (docs/security.md)");
  const auto answer = context.Call(&v1::Access::Stub::WhoAmI, {});
  if (!answer.ok() && !absl::IsUnimplemented(answer.status())) return answer.status();
  if (answer.ok() && answer->takes_secrets()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("coordinator at ", context.flags().coordinator,
                   " takes no secrets: it is of an earlier release, or does not use TLS; "
                   "upgrade it first"));
}

}  // namespace

void SecretFlags::DefineFlags(CLI::App& app) {
  app.add_option("--secret", secrets_,
                 "Give the ranks a variable that nobody else sees, with the value that it has "
                 "here or in FILE; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name("NAME[=FILE]");
}

absl::Status SecretFlags::Apply(client::JobFile& job) const {
  const size_t of_file = job.secrets.size();
  for (const std::string& text : secrets_) {
    auto source = client::ParseSecretSource(text);
    if (!source.ok())
      return absl::InvalidArgumentError(absl::StrCat("--secret: ", source.status().message()));
    const auto in_file = job.secrets.begin() + static_cast<std::ptrdiff_t>(of_file);
    const auto same = std::find_if(job.secrets.begin(), in_file, [&source](const auto& each) {
      return each.name == source->name;
    });
    if (same != in_file) {
      *same = *std::move(source);
      continue;
    }
    job.source.NoteName(absl::StrCat("secrets[", job.secrets.size(), "]"), "--secret");
    job.spec.add_secrets(source->name);
    job.secrets.push_back(*std::move(source));
  }
  return absl::OkStatus();
}

absl::Status AddSecrets(Context& context, const client::JobFile& job, v1::SubmitRequest& request) {
  if (job.secrets.empty()) return absl::OkStatus();
  ForbidCoreDumps();
  for (const client::SecretSource& source : job.secrets) {
    DP_ASSIGN_OR_RETURN(std::string value,
                        client::ReadSecret(source, context.surroundings().working_dir,
                                           context.surroundings().interrupts.descriptor()));
    if (client::IsReadableByAll(source, context.surroundings().working_dir)) {
      context.err() << "dpctl: the mode of secret " << source.name
                    << "'s file lets every user read it; take that right away with chmod 600\n";
    }
    v1::Secret* secret = request.add_secrets();
    secret->set_name(source.name);
    secret->set_value(std::move(value));
  }
  DP_RETURN_IF_ERROR(CheckSecrets(job.spec, request.secrets()));
  return CheckTakesSecrets(context);
}

}  // namespace dp::ctl
