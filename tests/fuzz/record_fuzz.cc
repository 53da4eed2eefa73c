// The journal's records and snapshots, as damage or a later release would leave them behind a right
// checksum. Loading ends with an error or a value. Saving that value, and loading it again, gives
// the same bytes.
//
// The first byte chooses: a record, or the pieces of a snapshot, each behind its length in two
// bytes.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "google/protobuf/text_format.h"
#include "server/core/coordinator.h"
#include "server/journal/convert_command.h"
#include "server/journal/convert_state.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::record {
namespace {

using journal::JournalRecord;

std::string Bytes(const JournalRecord& record) { return record.SerializeAsString(); }

void CheckRecord(absl::string_view bytes) {
  JournalRecord record;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const auto command = server::FromRecord(record);
  if (!command.ok()) return;
  const JournalRecord saved = server::ToRecord(*command);
  const auto again = server::FromRecord(saved);
  DP_CHECK(again.ok());
  DP_CHECK(Bytes(server::ToRecord(*again)) == Bytes(saved));
}

constexpr size_t kPieceBytes = 64 << 10;

void CheckPieces(absl::string_view bytes) {
  std::vector<std::string> pieces;
  while (!bytes.empty()) pieces.emplace_back(TakeSized(&bytes));
  const auto state = server::FromPieces(pieces);
  if (!state.ok()) return;
  const std::vector<std::string> saved = server::ToPieces(*state, kPieceBytes);
  const auto again = server::FromPieces(saved);
  DP_CHECK(again.ok());
  DP_CHECK(server::ToPieces(*again, kPieceBytes) == saved);
}

// Commands of the life of a job, in their order.
constexpr const char* kCommands[] = {
    "start_epoch {keys: 100 kept_answers_bounded: true}",
    R"(register_worker {name: "w" host: "h" address: "1" incarnation: 7 slots: 2 ports: 29500
       ports: 29501 labels {key: "a" value: "b"} process_tracking: "cgroup"})",
    R"(actor: "user ann" submit_job {request_id: "r" name: "a" ranks: 2 payload: "x" user: "ann"
       owner: "ann" store_port: true joins_by_running: true
       restart {user: 1 infra: 2 window {seconds: 60} never_exit_codes: 2}
       scheduling {queue: "q" priority: 1 after {job: 1 must_succeed: true}
         max_duration {seconds: 60} constraints: "zone=b" slots: SLOTS_GPU}
       grace {seconds: 10} join_within {seconds: 60} detect_within {seconds: 30}})",
    R"(submit_job {request_id: "s" name: "b" ranks: 2 payload: "y" joins_by_running: true
       grace {seconds: 10}})",
    "place_job {job: 2 slots {worker: 1 slot: 0} slots {worker: 1 slot: 1}}",
    R"(report_rank {worker: 1 incarnation: 7 rank {job: 2 generation: 1} what: WHAT_STARTED
       pid: 5})",
    R"(report_rank {worker: 1 incarnation: 7 rank {job: 2 generation: 1 rank: 1}
       what: WHAT_STARTED pid: 6})",
    R"(store_batch {job: 2 generation: 1 client: 9 sequence: 1
       operations {set {key: "k" value: "v"}} operations {add {key: "n" amount: 1}}
       operations {queue_push {key: "q" value: "1"}}})",
    R"(register_checkpoint {rank {job: 2 generation: 1}})",
    R"(report_rank {worker: 1 incarnation: 7 rank {job: 2 generation: 1} what: WHAT_EXITED pid: 5
       exit {signal: 9} error: "e" last_lines: "\377" oom: true})",
    R"(drain_worker {worker: "w" reason: "disk"})",
    R"(grant_role {role: ROLE_USER name: "ann"})",
    R"(revoke_access {name: "ann" made_until {seconds: 1764228000}})",
    R"(retry_job {job: 2 generation: 1 not_before {seconds: 1764228060}})",
};

std::vector<JournalRecord> Records() {
  std::vector<JournalRecord> records;
  for (const char* text : kCommands) {
    JournalRecord record;
    DP_CHECK(google::protobuf::TextFormat::ParseFromString(text, &record));
    record.mutable_at()->set_seconds(1'764'228'000 + std::ssize(records));
    records.push_back(record);
  }
  return records;
}

// The state after these commands; a command that the machine rejects changes nothing.
std::string Pieces(const std::vector<JournalRecord>& records) {
  core::Coordinator coordinator;
  for (const JournalRecord& record : records) {
    (void)coordinator.Apply(*server::FromRecord(record));
  }
  std::string all;
  for (const std::string& piece : server::ToPieces(coordinator.state(), /*piece_bytes=*/200)) {
    all += Sized(piece);
  }
  return all;
}

}  // namespace

void Run(absl::string_view input) {
  if (TakeChoice(&input) % 2 == 0) return CheckRecord(input);
  CheckPieces(input);
}

std::vector<std::string> Seeds() {
  const std::vector<JournalRecord> records = Records();
  std::vector<std::string> seeds = {Chosen(1, Pieces(records))};
  for (const JournalRecord& record : records) seeds.push_back(Chosen(0, Bytes(record)));
  return seeds;
}

}  // namespace dp::fuzz::record
