// Messages of callers whose fields the coordinator converts or checks itself. They are jobs, log
// frames, queries of logs, reports of ranks and slots, and store operations. A worker may lie in
// all of them. Accepted messages keep within the limits.
//
// The first byte chooses the message; the rest is its encoding.

#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/convert/store_operations.h"
#include "server/convert/convert_logs.h"
#include "server/convert/convert_worker.h"
#include "server/rpc/job_spec_check.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::message {
namespace {

using google::protobuf::FieldDescriptor;

// Above the size of any file on present disks, as convert_logs.cc has it.
constexpr uint64_t kStreamBytesMax = uint64_t{1} << 60;

template <typename Message>
bool Parse(absl::string_view bytes, Message* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void CheckFinite(const google::protobuf::Message& message) {
  std::vector<const FieldDescriptor*> fields;
  const auto& reflection = *message.GetReflection();
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE && !field->is_repeated()) {
      DP_CHECK(std::isfinite(reflection.GetDouble(message, field)));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        DP_CHECK(std::isfinite(reflection.GetRepeatedDouble(message, field, i)));
      }
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    if (!field->is_repeated()) CheckFinite(reflection.GetMessage(message, field));
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i) {
      CheckFinite(reflection.GetRepeatedMessage(message, field, i));
    }
  }
}

void CheckJobMessage(absl::string_view bytes) {
  v1::JobSpec spec;
  if (!Parse(bytes, &spec)) return;
  const auto checked = server::CheckJobSpec(spec);
  if (!checked.ok()) return;
  DP_CHECK(checked->ranks >= 1 && checked->ranks <= kRanksMax);
  DP_CHECK(checked->payload.size() <= kSpecBytesMax);
  v1::JobSpec kept;
  DP_CHECK(kept.ParseFromString(checked->payload));
  CheckFinite(kept);
  const auto again = server::CheckJobSpec(kept);
  v1::JobSpec kept_again;
  DP_CHECK(again.ok() && kept_again.ParseFromString(again->payload));
  // The bytes of a map have no order.
  DP_CHECK(google::protobuf::util::MessageDifferencer::Equals(kept, kept_again));
}

void CheckLogFrames(absl::string_view bytes) {
  v1::AppendLogsRequest request;
  if (!Parse(bytes, &request)) return;
  core::Job job;
  job.id = JobId(1);
  job.generation = Generation(2);
  job.spec.ranks = 2;
  const core::Worker worker{};
  const auto batch = server::FromProto(request, job, worker);
  if (!batch.ok()) return;
  DP_CHECK(std::ssize(batch->chunks) == request.chunks_size());
  size_t total = 0;
  for (const server::LogChunk& chunk : batch->chunks) {
    total += chunk.data.size();
    DP_CHECK(chunk.stream.generation.valid() && chunk.stream.generation <= job.generation);
    DP_CHECK(chunk.stream.rank >= 0 && chunk.stream.rank < kRanksMax);
    DP_CHECK(chunk.offset <= kStreamBytesMax && chunk.cut_bytes <= kStreamBytesMax);
    DP_CHECK(chunk.data.empty() || chunk.cut_bytes == 0);
  }
  DP_CHECK(total <= server::kAppendBytesMax);
}

void CheckLogQuery(absl::string_view bytes) {
  v1::ReadLogsRequest request;
  if (!Parse(bytes, &request)) return;
  const auto query = server::FromProto(request);
  if (!query.ok()) return;
  DP_CHECK(std::ssize(query->from) == request.from_size());
  for (const server::LogPosition& position : query->from) {
    const v1::LogPosition proto = server::ToProto(position);
    DP_CHECK(proto.offset() == position.offset && proto.rank() == position.stream.rank);
  }
}

void CheckReports(absl::string_view bytes) {
  if (v1::ReportRankRequest request; Parse(bytes, &request)) {
    const auto report = server::FromProto(request);
    if (report.ok()) {
      DP_CHECK(report->last_lines.size() <= kLastLinesMax);
      for (const std::string& line : report->last_lines) DP_CHECK(line.size() <= kLastLineBytesMax);
      DP_CHECK(report->error.size() <= kStartErrorBytesMax);
    }
  }
  if (v1::ReportSlotsRequest request; Parse(bytes, &request)) {
    for (const auto& [slot, reason] : server::FromProto(request).unhealthy) {
      DP_CHECK(reason.size() <= kLastLineBytesMax);
    }
  }
}

void CheckOperations(absl::string_view bytes) {
  v1::ExecuteRequest request;
  if (!Parse(bytes, &request)) return;
  const auto operations = OperationsFromProto(request.operations());
  if (!operations.ok()) return;
  StoreOperationProtos again;
  OperationsToProto(*operations, &again);
  DP_CHECK(again.size() == request.operations_size());
  const auto twice = OperationsFromProto(again);
  DP_CHECK(twice.ok());
  StoreOperationProtos encoded;
  OperationsToProto(*twice, &encoded);
  for (int i = 0; i < again.size(); ++i) {
    DP_CHECK(encoded[i].SerializeAsString() == again[i].SerializeAsString());
  }
}

constexpr void (*kMessages[])(absl::string_view) = {CheckJobMessage, CheckLogFrames, CheckLogQuery,
                                                    CheckReports, CheckOperations};

template <typename Message>
std::string Encoded(uint8_t choice, const char* text) {
  Message message;
  DP_CHECK(google::protobuf::TextFormat::ParseFromString(text, &message));
  return Chosen(choice, message.SerializeAsString());
}

}  // namespace

void Run(absl::string_view input) { kMessages[TakeChoice(&input) % std::size(kMessages)](input); }

std::vector<std::string> Seeds() {
  return {
      Encoded<v1::JobSpec>(0, R"(api_version: "dp/v1" kind: "Job" name: "a" ranks: 2
          after: "ok:7" constraints: "zone=b" max_duration {seconds: 60} env {key: "A" value: "b"}
          restart {max_restarts: 1 never_retry_exit_codes: 2}
          command {argv: "python3" argv: "train.py" working_dir: "/home/ann" nodes: "1:2"})"),
      Encoded<v1::JobSpec>(0, R"(api_version: "dp/v1" kind: "Job" name: "b" ranks: 1
          train {epochs: 1 global_batch_size: 8 data {dir: "/data"}
            model {layers {conv2d {out: 8 kernel: 3}} layers {relu {}} layers {flatten {}}
              layers {linear {out: 10}}}
            optimizer {sgd {learning_rate: 0.1 momentum: 0.9}}
            checkpoint {dir: "/c" every_steps: 5 keep: 2}})"),
      Encoded<v1::JobSpec>(0, R"(api_version: "dp/v1" kind: "Job" name: "c" ranks: 1
          train {epochs: 1 global_batch_size: 8 data {kind: "text" train: "/a" context: 16}
            model {preset: "gpt"} optimizer {adamw {learning_rate: 0.001}}})"),
      Encoded<v1::JobSpec>(0, R"(api_version: "dp/v1" kind: "Job" name: "t" ranks: 1
          train {epochs: 1 global_batch_size: 8
            data {kind: "csv" train: "/a" csv {labels: "x" delimiter: ","} validation: 0.5 std: 2}
            model {preset: "mlp"} optimizer {sgd {learning_rate: 0.1}}})"),
      Encoded<v1::AppendLogsRequest>(1, R"(worker_id: 1 job: 1
          chunks {generation: 2 rank: 1 stream: LOG_STREAM_STDOUT offset: 5 data: "a\nb\n"
            times {offset: 5 time {seconds: 1764228000}}}
          chunks {generation: 1 rank: 3 stream: LOG_STREAM_STDERR offset: 9 cut_bytes: 100}
          ranks {generation: 2 rank: 1 spool: "/var/spool/1" whole: true})"),
      Encoded<v1::ReadLogsRequest>(2, R"(job: 1 streams: LOG_STREAM_STDOUT ranks: 0
          from {generation: 1 rank: 2 stream: LOG_STREAM_STDERR offset: 7} tail_lines: 10
          since {seconds: 1764228000})"),
      Encoded<v1::ReportRankRequest>(3, R"(worker_id: 1 incarnation: 2 job: 1 generation: 2 rank: 1
          state: RANK_STATE_EXITED exit {signal: 9} error: "no" last_lines: "x" oom: true)"),
      Encoded<v1::ReportSlotsRequest>(3, R"(worker_id: 1 number: 1
          unhealthy {slot: 0 reason: "Xid 79"})"),
      Encoded<v1::ExecuteRequest>(4, R"(
          operations {set {key: "k" value: "v"}} operations {get {key: "k"}}
          operations {add {key: "n" amount: -1}} operations {check {keys: "a" keys: "b"}}
          operations {compare_set {key: "k" expected: "v" desired: "w"}}
          operations {list {prefix: "a" count_only: true}} operations {queue_pop {key: "q"}})")};
}

}  // namespace dp::fuzz::message
