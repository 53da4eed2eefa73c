#include "client/dpctl/parameter_sets.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/name.h"
#include "base/status.h"
#include "client/dpctl/job_calls.h"
#include "dp/v1/parameters.grpc.pb.h"

namespace dp::ctl {
namespace {

absl::Status NoSet(const std::string& text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("'", absl::Utf8SafeCEscape(text),
                                                 "' is no set of parameters: ", why,
                                                 "; give a job's number or the name of a set, as 7 "
                                                 "or gpt2, and perhaps a version, as gpt2@3"));
}

}  // namespace

absl::StatusOr<SetVersion> ParseSetVersion(const std::string& text) {
  SetVersion parsed;
  const size_t at = text.find('@');
  const std::string name = text.substr(0, at);
  if (at != std::string::npos &&
      (!absl::SimpleAtoi(text.substr(at + 1), &parsed.version) || parsed.version == 0)) {
    return NoSet(text, "behind @ must stand a number from 1");
  }
  if (absl::SimpleAtoi(name, &parsed.set.job)) {
    return parsed.set.job > 0 ? absl::StatusOr<SetVersion>(parsed)
                              : NoSet(text, "jobs have the numbers from 1");
  }
  parsed.set = {.name = name};
  if (!IsName(name)) return NoSet(text, absl::StrCat("a name must be ", kNameRule));
  return parsed;
}

absl::StatusOr<SetVersion> FindSetVersion(Context& context, const std::string& text) {
  DP_ASSIGN_OR_RETURN(SetVersion found, ParseSetVersion(text));
  if (found.set.job != 0) return found;
  const absl::Status listed = ListVersions(context, found.set).status();
  if (!absl::IsNotFound(listed)) DP_RETURN_IF_ERROR(listed);
  const absl::StatusOr<v1::Job> job = FindJob(context, found.set.name);
  if (listed.ok()) {
    if (job.ok()) {
      context.err() << "dpctl: " << found.set.name << " is a set of that name; give " << job->id()
                    << " for the weights of job " << job->id() << '\n';
    }
    return found;
  }
  if (absl::IsNotFound(job.status())) {
    return absl::NotFoundError(absl::StrCat("no set of parameters and no job has the name '",
                                            found.set.name,
                                            "'; 'dpctl weights ls' lists all sets"));
  }
  DP_RETURN_IF_ERROR(job.status());
  found.set = {.job = job->id()};
  return found;
}

absl::StatusOr<v1::ListParametersResponse> ListVersions(Context& context,
                                                        const client::ParameterSet& set) {
  v1::ListParametersRequest request;
  request.set_job(set.job);
  request.set_name(set.name);
  v1::ListParametersResponse all, page;
  do {
    DP_ASSIGN_OR_RETURN(page, context.Call(&v1::Parameters::Stub::List, request));
    all.mutable_versions()->MergeFrom(page.versions());
  } while (client::AskForNext(page, request));
  return all;
}

absl::StatusOr<v1::ParameterVersion> DescribeVersion(Context& context, const SetVersion& of) {
  v1::DescribeParametersRequest request;
  request.set_job(of.set.job);
  request.set_name(of.set.name);
  request.set_version(of.version);
  DP_ASSIGN_OR_RETURN(v1::DescribeParametersResponse response,
                      context.Call(&v1::Parameters::Stub::Describe, request));
  return std::move(*response.mutable_version());
}

std::string NameOf(const v1::ParameterVersion& version) {
  return absl::StrCat(version.job() != 0 ? absl::StrCat(version.job()) : version.name(), "@",
                      version.version());
}

}  // namespace dp::ctl
