#include "client/parameter_table.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/checksum/crc32c.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/status.h"
#include "client/retry_loop.h"
#include "dp/v1/parameters.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::client {
namespace {

// A coordinator that is away stops the steps of a table, and never ends the job. Ranks wait for as
// long as somebody may take to bring it back.
constexpr absl::Duration kAwayMax = absl::Hours(24);
constexpr absl::Duration kAttemptIn = absl::Minutes(10);
// One wait for peers. Short, so that a state that has become durable meanwhile is noticed.
constexpr absl::Duration kPullWait = absl::Seconds(5);

template <typename Request>
Request OfRank(const ParameterTable::Options& options) {
  Request request;
  request.set_job(options.job);
  request.set_generation(options.generation);
  request.set_rank(options.rank);
  return request;
}

// Takes what a message brings into `values`. Errors: DataLoss; Internal more than fits.
absl::Status Add(const v1::PullValuesResponse& message, absl::Span<float> values, size_t& bytes,
                 uint32_t& crc) {
  const std::string& data = message.data();
  if (data.empty()) return absl::OkStatus();
  crc = ExtendCrc32c(crc, data);
  if (crc != message.crc32c()) {
    return absl::DataLossError("values of the table do not match their checksum; pull again");
  }
  if (data.size() > values.size() * sizeof(float) - bytes) {
    return absl::InternalError("the table has more values than the model");
  }
  std::memcpy(reinterpret_cast<char*>(values.data()) + bytes, data.data(), data.size());
  bytes += data.size();
  return absl::OkStatus();
}

}  // namespace

ParameterTable::ParameterTable(const Options& options, Connection& connection, Pause& pause,
                               const Clock& clock)
    : options_(options), connection_(connection), pause_(pause), clock_(clock) {}

template <typename Attempt>
auto ParameterTable::Retried(Attempt attempt) {
  return RetryLoop(RetryPolicy({.deadline = kAwayMax, .attempt = kAttemptIn}, EntropySeed()),
                   clock_, pause_, attempt);
}

absl::StatusOr<v1::OpenTableResponse> ParameterTable::Open() {
  DP_ASSIGN_OR_RETURN(v1::OpenTableResponse opened, OpenOnce());
  latest_ = opened.initial() ? 0 : opened.next() - std::min<uint64_t>(opened.next(), 1);
  return opened;
}

absl::StatusOr<v1::OpenTableResponse> ParameterTable::OpenOnce() {
  auto request = OfRank<v1::OpenTableRequest>(options_);
  *request.mutable_settings() = options_.settings;
  return Retried([&](absl::Duration) {
    return connection_.Call(&v1::Parameters::Stub::OpenTable, request, absl::Seconds(30));
  });
}

absl::Status ParameterTable::Begin(absl::Span<const float> values) {
  initial_.assign(values.begin(), values.end());
  return Push(/*number=*/0, values, {}).status();
}

absl::StatusOr<uint64_t> ParameterTable::Push(uint64_t number, absl::Span<const float> data,
                                              const GradientNote& note) {
  auto header = OfRank<v1::PushGradientsRequest>(options_);
  header.set_number(number);
  header.set_epoch_loss_sum(note.epoch_loss_sum);
  header.set_epoch_samples(note.epoch_samples);
  header.set_samples(note.samples);
  header.set_leaving(note.leaving);
  const absl::string_view bytes(reinterpret_cast<const char*>(data.data()),
                                data.size() * sizeof(float));
  DP_ASSIGN_OR_RETURN(
      const v1::PushGradientsResponse response, Retried([&](absl::Duration in) {
        size_t at = 0;
        uint32_t crc = 0;
        bool begun = false;
        return connection_
            .Upload<v1::Parameters::Stub, v1::PushGradientsRequest, v1::PushGradientsResponse>(
                &v1::Parameters::Stub::PushGradients,
                [&](v1::PushGradientsRequest& message) {
                  if (std::exchange(begun, true)) {
                    message.Clear();
                  } else {
                    message = header;
                  }
                  const absl::string_view chunk = bytes.substr(at, kParameterChunkBytes);
                  crc = ExtendCrc32c(crc, chunk);
                  message.set_data(chunk.data(), chunk.size());
                  message.set_crc32c(crc);
                  at += chunk.size();
                  return !chunk.empty();
                },
                in);
      }));
  return response.next();
}

absl::StatusOr<v1::TableState> ParameterTable::Step(uint64_t number,
                                                    absl::Span<const float> gradient,
                                                    const GradientNote& note,
                                                    absl::Span<float> values) {
  DP_CHECK(kept_.empty() || kept_.back().number + 1 == number);
  kept_.push_back({number, {gradient.begin(), gradient.end()}, note});
  latest_ = number;
  DP_RETURN_IF_ERROR(PushFrom(number));
  return Pull(number, values);
}

absl::StatusOr<v1::TableState> ParameterTable::Pull(uint64_t number, absl::Span<float> values) {
  absl::StatusOr<v1::TableState> state = AwaitValues(number, values);
  while (absl::IsFailedPrecondition(state.status())) {
    DP_ASSIGN_OR_RETURN(const uint64_t next, Reopen());
    DP_RETURN_IF_ERROR(PushFrom(next));
    state = AwaitValues(number, values);
  }
  if (state.ok()) Forget(*state);
  return state;
}

// A coordinator that has restarted rejects calls until its table is open again and has what the
// rank has pushed. A stale generation cannot open it, which ends the attempts.
absl::Status ParameterTable::PushFrom(uint64_t next) {
  absl::Status pushed = PushKept(next);
  while (absl::IsFailedPrecondition(pushed)) {
    DP_ASSIGN_OR_RETURN(next, Reopen());
    pushed = PushKept(next);
  }
  return pushed;
}

absl::StatusOr<uint64_t> ParameterTable::Reopen() {
  DP_ASSIGN_OR_RETURN(const v1::OpenTableResponse opened, OpenOnce());
  if (!opened.initial()) return opened.next();
  // It had no durable state. Rank 0 has kept the initial values.
  if (options_.rank == 0 && initial_.empty()) {
    return absl::DataLossError(absl::StrCat("job ", options_.job,
                                            ": the coordinator has lost the state of the table; "
                                            "restore its data directory, or submit the job again"));
  }
  DP_RETURN_IF_ERROR(options_.rank == 0 ? Push(/*number=*/0, initial_, {}).status()
                                        : AwaitValues(0, {}).status());
  return 1;
}

absl::Status ParameterTable::PushKept(uint64_t next) {
  while (next <= latest_) {
    if (kept_.empty() || next < kept_.front().number) {
      return absl::DataLossError(absl::StrCat(
          "job ", options_.job, ": the table asks for gradient ", next, " of rank ", options_.rank,
          ", which has pushed ", latest_, " and keeps ", kept_.size(),
          ": a state that was durable is gone; restore the coordinator's data directory, or submit "
          "the job again"));
    }
    const Kept& each = kept_[static_cast<size_t>(next - kept_.front().number)];
    const uint64_t number = next;
    const absl::StatusOr<uint64_t> pushed = Push(number, each.gradient, each.note);
    // The table waits for peers, which may push what they have again, too.
    if (absl::IsAborted(pushed.status())) {
      DP_RETURN_IF_ERROR(AwaitValues(number - 1, {}).status());
      continue;
    }
    DP_ASSIGN_OR_RETURN(next, pushed);
    if (next > number && number < kept_.back().number) {
      DP_RETURN_IF_ERROR(AwaitValues(number, {}).status());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::TableState> ParameterTable::AwaitValues(uint64_t number,
                                                           absl::Span<float> values) {
  absl::Time since = absl::InfiniteFuture();  // when peers were first missing
  while (true) {
    DP_ASSIGN_OR_RETURN(v1::TableState state, PullOnce(number, values));
    if (missing_.empty()) return state;
    const absl::Time now = clock_.Now();
    since = std::min(since, now - std::min(kPullWait, options_.detect_within));
    if (now - since < options_.detect_within) continue;
    return Late(number);
  }
}

absl::Status ParameterTable::Late(uint64_t number) const {
  const std::string within = absl::FormatDuration(options_.detect_within);
  if (options_.settings.mode() != v1::TABLE_MODE_BOUNDED || number == 0) {
    return absl::DeadlineExceededError(
        absl::StrCat("gradient ", number, " has not come from ranks ",
                     absl::StrJoin(missing_, ", "), " within ", within));
  }
  std::vector<std::string> each;
  for (size_t i = 0; i < missing_.size(); ++i) {
    const uint64_t at = i < missing_at_.size() ? missing_at_[i] : 0;
    each.push_back(absl::StrCat("rank ", missing_[i], " is at ", at, ", ",
                                number - std::min(at, number), " steps behind"));
  }
  return absl::DeadlineExceededError(
      absl::StrCat("rank ", options_.rank, " is at ", number, ", and has waited ", within, ": ",
                   absl::StrJoin(each, "; "), "; raise maxStaleness (",
                   options_.settings.max_staleness(), ") or detectWithin"));
}

absl::StatusOr<v1::TableState> ParameterTable::PullOnce(uint64_t number, absl::Span<float> values) {
  auto request = OfRank<v1::PullValuesRequest>(options_);
  request.set_number(number);
  request.set_without_values(values.empty());
  *request.mutable_timeout() = ToProto(std::min(kPullWait, options_.detect_within));
  v1::TableState state;
  DP_RETURN_IF_ERROR(Retried([&](absl::Duration in) {
    missing_.clear();
    missing_at_.clear();
    size_t bytes = 0;
    uint32_t crc = 0;
    const absl::Status status =
        connection_.Download<v1::Parameters::Stub, v1::PullValuesRequest, v1::PullValuesResponse>(
            &v1::Parameters::Stub::PullValues, request,
            [&](v1::PullValuesResponse& message) {
              if (message.has_state()) state = std::move(*message.mutable_state());
              missing_.insert(missing_.end(), message.missing().begin(), message.missing().end());
              missing_at_.insert(missing_at_.end(), message.missing_at().begin(),
                                 message.missing_at().end());
              return Add(message, values, bytes, crc);
            },
            in);
    if (!status.ok() || !missing_.empty() || bytes == values.size() * sizeof(float)) return status;
    return absl::UnavailableError(absl::StrCat("the values have ended after ", bytes, " bytes"));
  }));
  return state;
}

void ParameterTable::Forget(const v1::TableState& state) {
  const int ranks = state.durable_by_rank_size();
  if (ranks > 0) std::vector<float>().swap(initial_);
  const uint64_t durable = options_.rank < ranks ? state.durable_by_rank(options_.rank) : 0;
  while (!kept_.empty() && kept_.front().number <= durable) kept_.pop_front();
}

absl::StatusOr<v1::ParameterVersion> ParameterTable::Publish(bool close) {
  auto request = OfRank<v1::PublishTableRequest>(options_);
  request.set_close(close);
  request.set_number(latest_);
  while (true) {
    absl::StatusOr<v1::PublishTableResponse> response = Retried([&](absl::Duration in) {
      return connection_.Call(&v1::Parameters::Stub::PublishTable, request, in);
    });
    if (response.ok()) return std::move(*response->mutable_version());
    if (!absl::IsFailedPrecondition(response.status())) return response.status();
    DP_ASSIGN_OR_RETURN(const uint64_t next, Reopen());
    DP_RETURN_IF_ERROR(PushFrom(next));
    const absl::Status there = AwaitValues(latest_, {}).status();
    if (!there.ok() && !absl::IsFailedPrecondition(there)) return there;
  }
}

}  // namespace dp::client
