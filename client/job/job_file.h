#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/job/field_source.h"
#include "client/job/secret_source.h"
#include "dp/v1/job_spec.pb.h"

namespace dp::client {

// A job as in its file, before defaults and checks (job_check.h).
struct JobFile {
  v1::JobSpec spec;
  FieldSource source;
  // Where the values of spec.secrets are read, in that order. The spec has only their names.
  std::vector<SecretSource> secrets = {};
};

// `file` is the name in errors. `overrides` are "path=value" each, as "train.epochs=3" or
// "train.model.layers[0].conv2d.out=8"; they take precedence over the file.
// Errors: InvalidArgument "job.yaml:7:3: unknown field 'epocs' in train; did you mean 'epochs'?".
absl::StatusOr<JobFile> ParseJobFile(absl::string_view text, const std::string& file,
                                     const std::vector<std::string>& overrides = {});

// Blocks as ReadInput (input_file.h). Errors: NotFound no such file; Cancelled by `stop`;
// InvalidArgument as ParseJobFile, or above 1 MiB.
absl::StatusOr<JobFile> ReadJobFile(const std::string& path,
                                    const std::vector<std::string>& overrides = {}, int stop = -1);

}  // namespace dp::client
