#include "client/parameters.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/checksum/crc32c.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/status.h"
#include "client/retry_loop.h"
#include "dp/v1/parameters.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::client {
namespace {

// A stream ends by itself when nothing moves for a minute. An attempt may therefore take as long as
// the largest models need in a slow network.
constexpr absl::Duration kStreamIn = absl::Hours(1);
constexpr absl::Duration kStreamWithin = absl::Hours(2);
constexpr absl::Duration kAskIn = absl::Seconds(10);
constexpr absl::Duration kAskWithin = absl::Seconds(30);

std::string NewRequestId() { return absl::StrFormat("%016x%016x", EntropySeed(), EntropySeed()); }

// Cuts the tensors' data, one after the other, into chunks.
class Chunks {
 public:
  explicit Chunks(absl::Span<const TensorView> tensors) : tensors_(tensors) {}

  // Fills in the data of the next message. Returns false if none is left.
  bool Next(v1::PushParametersRequest& message) {
    std::string& data = *message.mutable_data();
    data.clear();
    while (data.size() < kParameterChunkBytes && tensor_ < tensors_.size()) {
      const absl::string_view rest = tensors_[tensor_].data.substr(offset_);
      const absl::string_view part = rest.substr(0, kParameterChunkBytes - data.size());
      data.append(part.data(), part.size());
      offset_ += part.size();
      if (part.size() < rest.size()) continue;
      ++tensor_;
      offset_ = 0;
    }
    crc_ = ExtendCrc32c(crc_, data);
    message.set_crc32c(crc_);
    return !data.empty();
  }

 private:
  const absl::Span<const TensorView> tensors_;
  size_t tensor_ = 0;
  size_t offset_ = 0;  // within that tensor
  uint32_t crc_ = 0;
};

template <typename Request>
Request About(const ParameterSet& set) {
  Request request;
  request.set_job(set.job);
  request.set_name(set.name);
  return request;
}

void Announce(absl::Span<const TensorView> tensors, v1::PushParametersRequest& header) {
  for (const TensorView& each : tensors) {
    v1::ParameterTensor* const tensor = header.add_tensors();
    tensor->set_name(each.name);
    tensor->set_type(each.type);
    tensor->mutable_shape()->Assign(each.shape.begin(), each.shape.end());
    tensor->set_bytes(each.data.size());
  }
}

// Errors: InvalidArgument it does not fit into a message, with a chunk.
absl::Status CheckHeader(const v1::PushParametersRequest& header) {
  constexpr size_t kBytesMax = kMessageBytesMax - kParameterChunkBytes;
  if (header.ByteSizeLong() <= kBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensors: names, shapes and texts of ", header.tensors_size(), " tensors need ",
                   header.ByteSizeLong(), " bytes, and a message has room for ", kBytesMax,
                   " of them; give shorter names, or push them as several sets"));
}

// Adds what a message brings. Errors: DataLoss.
absl::Status Add(v1::PullParametersResponse& message, uint32_t& crc, PulledParameters& pulled) {
  if (message.has_version()) {
    pulled.version = std::move(*message.mutable_version());
    pulled.data.reserve(pulled.version.bytes());
  }
  crc = ExtendCrc32c(crc, message.data());
  const bool has_data = !message.data().empty();
  if (has_data && crc != message.crc32c()) {
    return absl::DataLossError(absl::StrCat(
        "version ", pulled.version.version(), ": the data before byte ",
        pulled.data.size() + message.data().size(),
        " do not match their checksum; pull again, and if that persists, the coordinator's file is "
        "damaged"));
  }
  pulled.data.append(message.data());
  return absl::OkStatus();
}

}  // namespace

absl::string_view PulledParameters::DataOf(int index) const {
  uint64_t begin = 0;
  for (int i = 0; i < index; ++i) begin += version.tensors(i).bytes();
  return absl::string_view(data).substr(begin, version.tensors(index).bytes());
}

bool AskForNext(const v1::ListParametersResponse& page, v1::ListParametersRequest& request) {
  if (!page.more() || page.versions().empty()) return false;
  const v1::ParameterVersion& last = page.versions(page.versions_size() - 1);
  request.mutable_after()->set_job(last.job());
  request.mutable_after()->set_name(last.name());
  request.mutable_after()->set_version(last.version());
  return true;
}

Parameters::Parameters(Connection& connection, Pause& pause, const Clock& clock)
    : connection_(connection), pause_(pause), clock_(clock) {}

template <typename Attempt>
auto Parameters::Retried(absl::Duration deadline, absl::Duration attempt_in, Attempt attempt) {
  return RetryLoop(
      RetryPolicy({.deadline = deadline, .attempt = attempt_in, .retry_deadline_exceeded = false},
                  EntropySeed()),
      clock_, pause_, attempt);
}

absl::StatusOr<v1::ParameterVersion> Parameters::Push(const ParameterSet& set,
                                                      absl::Span<const TensorView> tensors,
                                                      const PushOptions& options) {
  auto header = About<v1::PushParametersRequest>(set);
  header.set_generation(options.generation);
  header.set_rank(options.rank);
  header.set_step(options.step);
  header.set_request_id(NewRequestId());
  header.mutable_metadata()->insert(options.metadata.begin(), options.metadata.end());
  Announce(tensors, header);
  DP_RETURN_IF_ERROR(CheckHeader(header));
  DP_ASSIGN_OR_RETURN(
      v1::PushParametersResponse response,
      Retried(kStreamWithin, kStreamIn, [&](absl::Duration in) {
        Chunks chunks(tensors);
        bool begun = false;
        return connection_
            .Upload<v1::Parameters::Stub, v1::PushParametersRequest, v1::PushParametersResponse>(
                &v1::Parameters::Stub::Push,
                [&](v1::PushParametersRequest& message) {
                  if (!begun) message = header;
                  if (begun) message.Clear();
                  const bool has_data = chunks.Next(message);
                  return !std::exchange(begun, true) || has_data;
                },
                in);
      }));
  return std::move(*response.mutable_version());
}

absl::StatusOr<PulledParameters> Parameters::Pull(const ParameterSet& set,
                                                  const PullOptions& options) {
  auto request = About<v1::PullParametersRequest>(set);
  request.set_version(options.version);
  request.set_since(options.since);
  *request.mutable_timeout() = ToProto(options.timeout);
  PulledParameters pulled;
  DP_RETURN_IF_ERROR(Retried(kStreamWithin, kStreamIn, [&](absl::Duration in) {
    pulled = {};
    uint32_t crc = 0;
    return connection_
        .Download<v1::Parameters::Stub, v1::PullParametersRequest, v1::PullParametersResponse>(
            &v1::Parameters::Stub::Pull, request,
            [&](v1::PullParametersResponse& message) { return Add(message, crc, pulled); }, in);
  }));
  if (pulled.data.size() == pulled.version.bytes()) return pulled;
  return absl::DataLossError(absl::StrCat("version ", pulled.version.version(), " has ",
                                          pulled.version.bytes(), " bytes, but ",
                                          pulled.data.size(), " came"));
}

absl::StatusOr<std::vector<v1::ParameterVersion>> Parameters::List() { return ListOf({}); }

absl::StatusOr<std::vector<v1::ParameterVersion>> Parameters::Versions(const ParameterSet& set) {
  return ListOf(About<v1::ListParametersRequest>(set));
}

absl::StatusOr<std::vector<v1::ParameterVersion>> Parameters::ListOf(
    v1::ListParametersRequest request) {
  std::vector<v1::ParameterVersion> versions;
  v1::ListParametersResponse page;
  do {
    DP_ASSIGN_OR_RETURN(page, Retried(kAskWithin, kAskIn, [&](absl::Duration in) {
                          return connection_.Call(&v1::Parameters::Stub::List, request, in);
                        }));
    versions.insert(versions.end(), page.versions().begin(), page.versions().end());
  } while (AskForNext(page, request));
  return versions;
}

absl::StatusOr<v1::ParameterVersion> Parameters::Describe(const ParameterSet& set,
                                                          uint64_t version) {
  auto request = About<v1::DescribeParametersRequest>(set);
  request.set_version(version);
  DP_ASSIGN_OR_RETURN(v1::DescribeParametersResponse response,
                      Retried(kAskWithin, kAskIn, [&](absl::Duration in) {
                        return connection_.Call(&v1::Parameters::Stub::Describe, request, in);
                      }));
  return std::move(*response.mutable_version());
}

absl::StatusOr<uint64_t> Parameters::Remove(const ParameterSet& set, uint64_t version) {
  auto request = About<v1::RemoveParametersRequest>(set);
  request.set_version(version);
  request.set_request_id(NewRequestId());
  bool repeated = false;
  const auto response = Retried(kAskWithin, kAskIn, [&](absl::Duration in) {
    auto removed = connection_.Call(&v1::Parameters::Stub::Remove, request, in);
    // The coordinator has restarted after the removal, whose answer was lost.
    const bool gone = std::exchange(repeated, true) && absl::IsNotFound(removed.status());
    return gone ? v1::RemoveParametersResponse() : removed;
  });
  DP_RETURN_IF_ERROR(response.status());
  return response->bytes();
}

}  // namespace dp::client
