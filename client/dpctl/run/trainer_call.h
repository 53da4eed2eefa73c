#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/context.h"
#include "google/protobuf/util/json_util.h"

namespace dp::ctl {

// Lets the dp-trainer of this machine carry out a request of dp/v1/inference.proto. Blocks.
// Errors: that of the response; those of Surroundings::run_trainer; InvalidArgument a path that is
// not UTF-8. A missing file is InvalidArgument, too, because dpctl's NotFound is about jobs.
template <typename Response, typename Request>
absl::StatusOr<Response> CallTrainer(Context& context, const std::string& verb,
                                     const Request& request) {
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(request, &json).ok()) {
    return absl::InvalidArgumentError("a path or name is not UTF-8; rename the file");
  }
  DP_ASSIGN_OR_RETURN(const std::string output, context.surroundings().run_trainer(verb, json));
  Response response;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(output, &response, options).ok()) {
    return absl::InternalError(absl::StrCat(
        "dp-trainer ", verb, " gives no answer of this release; is it the one beside dpctl?"));
  }
  if (!response.has_error()) return response;
  const auto code = static_cast<absl::StatusCode>(response.error().code());
  return absl::Status(
      code == absl::StatusCode::kNotFound ? absl::StatusCode::kInvalidArgument : code,
      response.error().message());
}

}  // namespace dp::ctl
