#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/dpctl/context.h"
#include "client/parameters.h"
#include "dp/v1/parameters.pb.h"

// Sets of parameters on the command line: `gpt2`, `gpt2@3`, `7`, `7@2`, or a job's name.

namespace dp::ctl {

struct SetVersion {
  client::ParameterSet set;
  uint64_t version = 0;  // 0: the latest, or all
};

// A number names a job, everything else a named set. Asks nobody. Errors: InvalidArgument.
absl::StatusOr<SetVersion> ParseSetVersion(const std::string& text);

// The same; where no set has the name, it is that of a job. Says on standard error if it is that of
// both. Errors: InvalidArgument; NotFound no set and no job has the name; those of Context::Call.
absl::StatusOr<SetVersion> FindSetVersion(Context& context, const std::string& text);

// The versions of a set, newest first; without a set, the latest of each. Errors: NotFound no such
// set; those of Context::Call.
absl::StatusOr<v1::ListParametersResponse> ListVersions(Context& context,
                                                        const client::ParameterSet& set = {});

// With the names and shapes of its tensors; version 0 is the latest. Errors: NotFound no such set
// or version; those of Context::Call.
absl::StatusOr<v1::ParameterVersion> DescribeVersion(Context& context, const SetVersion& of);

// As on the command line: "gpt2@3".
std::string NameOf(const v1::ParameterVersion& version);

}  // namespace dp::ctl
