#pragma once

#include <string>

#include "absl/status/status.h"
#include "dp/v1/job_spec.pb.h"
#include "dp/v1/jobs.pb.h"
#include "google/protobuf/repeated_field.h"

// When the values of a job's secrets are valid. The same for dpctl and the coordinator. Pure. No
// error shows a value.

namespace dp {

// Whether the value can be a secret variable.
// Errors: InvalidArgument names the secret, what is wrong and the remedy.
absl::Status CheckSecretValue(const std::string& name, const std::string& value);

// Whether each name in spec.secrets has one valid value, and no other name has any. The names were
// checked with the spec (job_check.h).
// Errors: InvalidArgument as above.
absl::Status CheckSecrets(const v1::JobSpec& spec,
                          const google::protobuf::RepeatedPtrField<v1::Secret>& secrets);

}  // namespace dp
