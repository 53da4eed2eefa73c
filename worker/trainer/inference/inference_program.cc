#include "worker/trainer/inference/inference_program.h"

#include <cstdio>
#include <string>
#include <string_view>

#include "base/status.h"
#include "google/protobuf/util/json_util.h"
#include "worker/trainer/checkpoint/durable_file.h"
#include "worker/trainer/inference/evaluate.h"
#include "worker/trainer/inference/predict.h"

namespace dp::trainer {
namespace {

constexpr int kInferenceFailed = 1;
constexpr int kNoRequest = 2;
constexpr int64_t kRequestBytesMax = int64_t{1} << 30;

template <typename Request>
absl::StatusOr<Request> ReadRequest(const char* file) {
  DP_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(file, kRequestBytesMax));
  Request request;
  if (google::protobuf::util::JsonStringToMessage(json, &request).ok()) return request;
  return absl::InvalidArgumentError("it is no request; dpctl of the same release writes one");
}

template <typename Request, typename Response>
int Answer(const char* program, const char* file,
           absl::StatusOr<Response> (*carry_out)(const Request&)) {
  const absl::StatusOr<Request> request = ReadRequest<Request>(file);
  if (!request.ok()) {
    const std::string why(request.status().message());
    std::fprintf(stderr, "%s: %s: %s\n", program, file, why.c_str());
    return kNoRequest;
  }
  const absl::StatusOr<Response> carried_out = carry_out(*request);
  Response response = carried_out.ok() ? *carried_out : Response();
  if (!carried_out.ok()) {
    response.mutable_error()->set_code(carried_out.status().raw_code());
    response.mutable_error()->set_message(std::string(carried_out.status().message()));
  }
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(response, &json).ok()) return kInferenceFailed;
  std::printf("%s\n", json.c_str());
  return carried_out.ok() ? 0 : kInferenceFailed;
}

}  // namespace

int RunInference(const char* program, const char* verb, const char* file) {
  return std::string_view(verb) == "evaluate" ? Answer(program, file, EvaluateTrained)
                                              : Answer(program, file, PredictTrained);
}

}  // namespace dp::trainer
