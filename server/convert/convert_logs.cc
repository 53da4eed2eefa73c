#include "server/convert/convert_logs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "proto/convert/time.h"
#include "server/convert/convert_call.h"

namespace dp::server {
namespace {

using Kind = LogStreamKey::Kind;

// Above the size of any file on present disks.
constexpr uint64_t kStreamBytesMax = uint64_t{1} << 60;
// The longest path on Linux.
constexpr size_t kSpoolPathBytesMax = 4096;

absl::StatusOr<Kind> ToKind(v1::LogStream stream) {
  switch (stream) {
    case v1::LOG_STREAM_STDOUT:
      return Kind::kStdout;
    case v1::LOG_STREAM_STDERR:
      return Kind::kStderr;
    case v1::LOG_STREAM_METRICS:
      return Kind::kMetrics;
    default:
      return absl::InvalidArgumentError(absl::StrCat("stream is ", static_cast<int>(stream),
                                                     "; it must be STDOUT, STDERR or METRICS"));
  }
}

v1::LogStream StreamOf(Kind kind) {
  switch (kind) {
    case Kind::kStdout:
      return v1::LOG_STREAM_STDOUT;
    case Kind::kStderr:
      return v1::LOG_STREAM_STDERR;
    case Kind::kMetrics:
      return v1::LOG_STREAM_METRICS;
  }
  return v1::LOG_STREAM_UNSPECIFIED;
}

// Chunks and positions name their stream by the same three fields.
template <typename Proto>
absl::StatusOr<LogStreamKey> ToStream(const Proto& proto) {
  LogStreamKey stream{Generation(proto.generation()), proto.rank()};
  DP_ASSIGN_OR_RETURN(stream.kind, ToKind(proto.stream()));
  return stream;
}

template <typename Proto>
void SetStream(const LogStreamKey& stream, Proto* proto) {
  proto->set_generation(stream.generation.value());
  proto->set_rank(stream.rank);
  proto->set_stream(StreamOf(stream.kind));
}

std::vector<LogTime> TimesFrom(const v1::LogChunk& proto) {
  std::vector<LogTime> times;
  for (const v1::LogTime& time : proto.times()) {
    times.push_back({time.offset(), FromProto(time.time())});
  }
  return times;
}

// Keeps daemons from making files for ranks that never existed. The job does not remember how many
// ranks an earlier generation had; it may have been more than now.
absl::Status CheckRank(Generation generation, int rank, const core::Job& job) {
  if (!generation.valid() || generation > job.generation) {
    return absl::InvalidArgumentError(absl::StrCat("job ", job.id.value(), " has no generation ",
                                                   generation.value(), "; the last is ",
                                                   job.generation.value()));
  }
  const int ranks = generation == job.generation ? job.world_size() : kRanksMax;
  if (rank < 0 || rank >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", job.id.value(), " has no rank ", rank, "; it has ", ranks));
  }
  return absl::OkStatus();
}

// The ranks that the daemon reports, and the ranks whose bytes it sends.
absl::StatusOr<std::vector<RankOutput>> RanksFrom(const v1::AppendLogsRequest& request,
                                                  const std::vector<LogChunk>& chunks,
                                                  const core::Job& job, const core::Worker& from) {
  std::vector<RankOutput> ranks;
  for (const v1::RankOutput& proto : request.ranks()) {
    DP_RETURN_IF_ERROR(CheckRank(Generation(proto.generation()), proto.rank(), job));
    if (proto.spool().size() > kSpoolPathBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("the path of rank ", proto.rank(), "'s spool has ", proto.spool().size(),
                       " bytes; at most ", kSpoolPathBytesMax, " are taken"));
    }
    ranks.push_back({Generation(proto.generation()), proto.rank(), from.name, from.host,
                     proto.spool(), proto.whole()});
  }
  for (const LogChunk& chunk : chunks) {
    const auto& [generation, rank, kind] = chunk.stream;
    const bool known =
        !ranks.empty() && ranks.back().generation == generation && ranks.back().rank == rank;
    if (!known) ranks.push_back({generation, rank, from.name, from.host});
  }
  return ranks;
}

}  // namespace

absl::StatusOr<LogBatch> FromProto(const v1::AppendLogsRequest& request, const core::Job& job,
                                   const core::Worker& from) {
  std::vector<LogChunk> chunks;
  size_t bytes = 0;
  for (const v1::LogChunk& proto : request.chunks()) {
    DP_ASSIGN_OR_RETURN(const LogStreamKey stream, ToStream(proto));
    DP_RETURN_IF_ERROR(CheckRank(stream.generation, stream.rank, job));
    bytes += proto.data().size();
    if (proto.cut_bytes() > 0 && !proto.data().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a chunk of rank ", proto.rank(), " has data and says that it is cut"));
    }
    // Their sum may be too large for 64 bits.
    if (proto.cut_bytes() > kStreamBytesMax ||
        proto.offset() > kStreamBytesMax - proto.cut_bytes()) {
      return absl::InvalidArgumentError(absl::StrCat("offset ", proto.offset(), " and ",
                                                     proto.cut_bytes(),
                                                     " bytes that are cut are "
                                                     "more than a stream can have"));
    }
    chunks.push_back({stream, proto.offset(), proto.data(), TimesFrom(proto), proto.cut_bytes(),
                      proto.cut_reason() == v1::LOG_CUT_REASON_EMPTIED});
  }
  if (bytes > kAppendBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("the request brings ", bytes,
                                                   " bytes of logs; at most ", kAppendBytesMax,
                                                   " are taken at once"));
  }
  DP_ASSIGN_OR_RETURN(std::vector<RankOutput> ranks, RanksFrom(request, chunks, job, from));
  return LogBatch{std::move(chunks), std::move(ranks)};
}

absl::StatusOr<LogQuery> FromProto(const v1::ReadLogsRequest& request) {
  LogQuery query{.ranks = {request.ranks().begin(), request.ranks().end()},
                 .tail_lines = request.tail_lines(),
                 .generation = Generation(request.generation()),
                 .since_generation = Generation(request.since_generation())};
  if (request.has_since()) query.since = FromProto(request.since());
  query.with_times = request.with_times();
  query.without_lines = request.without_lines();
  for (const int stream : request.streams()) {
    DP_ASSIGN_OR_RETURN(const Kind kind, ToKind(static_cast<v1::LogStream>(stream)));
    query.kinds.push_back(kind);
  }
  for (const v1::LogPosition& position : request.from()) {
    DP_ASSIGN_OR_RETURN(const LogStreamKey stream, ToStream(position));
    query.from.push_back({stream, position.offset()});
  }
  return query;
}

v1::LogChunk ToProto(LogChunk chunk) {
  v1::LogChunk proto;
  SetStream(chunk.stream, &proto);
  proto.set_offset(chunk.offset);
  proto.set_data(std::move(chunk.data));
  proto.set_cut_bytes(chunk.cut_bytes);
  proto.set_host(std::move(chunk.host));
  for (const LogTime& time : chunk.times) {
    v1::LogTime* added = proto.add_times();
    added->set_offset(time.offset);
    *added->mutable_time() = ToProto(time.time);
  }
  return proto;
}

v1::OutstandingOutput ToProto(const OutstandingOutput& outstanding) {
  v1::OutstandingOutput proto;
  proto.set_generation(outstanding.of.generation.value());
  proto.set_rank(outstanding.of.rank);
  proto.set_worker(outstanding.of.worker);
  proto.set_host(outstanding.of.host);
  proto.set_spool(outstanding.of.spool);
  proto.set_stored_bytes(outstanding.stored_bytes);
  return proto;
}

v1::LogPosition ToProto(const LogPosition& position) {
  v1::LogPosition proto;
  SetStream(position.stream, &proto);
  proto.set_offset(position.offset);
  return proto;
}

}  // namespace dp::server
