#include "worker/engine/collectives/call_ledger.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"

namespace dp::engine {
namespace {

// Nobody is further ahead: operations that need nothing from a peer are rare.
constexpr size_t kCallsKept = 16;

absl::Status NotANote(absl::string_view text) {
  return absl::InternalError(absl::StrCat("'", text, "' is no note of a call"));
}

// A note's numbers, ahead of the sizes of pieces.
constexpr size_t kNoteFields = 9;

absl::StatusOr<std::vector<uint64_t>> NumbersOf(absl::string_view text) {
  std::vector<uint64_t> numbers;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty()))
    if (!absl::SimpleAtoi(word, &numbers.emplace_back())) return NotANote(text);
  return numbers;
}

std::string EncodeOne(const CallNote& note) {
  const CallShape& shape = note.shape;
  return absl::StrCat(
      absl::StrJoin(
          std::vector<uint64_t>{
              note.number, note.leaves ? uint64_t{1} : uint64_t{0},
              static_cast<uint64_t>(shape.kind), static_cast<uint64_t>(shape.type),
              static_cast<uint64_t>(shape.op), static_cast<uint64_t>(shape.order),
              static_cast<uint64_t>(shape.verb), static_cast<uint64_t>(shape.root), shape.count},
          " "),
      "|", absl::StrJoin(note.pieces.sent, " "), "|", absl::StrJoin(note.pieces.expected, " "));
}

absl::StatusOr<CallNote> DecodeOne(absl::string_view text, int size) {
  const std::vector<std::string> parts = absl::StrSplit(text, '|');
  if (parts.size() != 3) return NotANote(text);
  CallNote note;
  DP_ASSIGN_OR_RETURN(const std::vector<uint64_t> fields, NumbersOf(parts[0]));
  DP_ASSIGN_OR_RETURN(note.pieces.sent, NumbersOf(parts[1]));
  DP_ASSIGN_OR_RETURN(note.pieces.expected, NumbersOf(parts[2]));
  const bool exchanges = fields.size() == kNoteFields &&
                         fields[2] == static_cast<uint64_t>(CallShape::Kind::kExchange);
  const size_t pieces = exchanges ? static_cast<size_t>(size) : 0;
  const uint64_t greatest[] = {~uint64_t{0},
                               1,
                               static_cast<uint64_t>(CallShape::Kind::kBarrier),
                               static_cast<uint64_t>(DataType::kUint8),
                               255,
                               255,
                               static_cast<uint64_t>(CallShape::Verb::kAllToAll),
                               static_cast<uint64_t>(size),
                               ~uint64_t{0}};
  if (fields.size() != kNoteFields || note.pieces.sent.size() != pieces ||
      note.pieces.expected.size() != pieces)
    return NotANote(text);
  for (size_t i = 0; i < kNoteFields; ++i)
    if (fields[i] > greatest[i]) return NotANote(text);
  note.number = fields[0];
  note.leaves = fields[1] != 0;
  note.shape = {.kind = static_cast<CallShape::Kind>(fields[2]),
                .type = static_cast<DataType>(fields[3]),
                .op = static_cast<ReduceOp>(fields[4]),
                .order = static_cast<ReduceOrder>(fields[5]),
                .verb = static_cast<CallShape::Verb>(fields[6]),
                .root = static_cast<int32_t>(fields[7]),
                .count = fields[8]};
  return note;
}

}  // namespace

CallNote NoteOf(uint64_t number, const Collective& call) {
  CallNote note{.number = number, .shape = call.shape};
  if (call.shape.kind == CallShape::Kind::kExchange) note.pieces = PieceSizesOf(call);
  return note;
}

std::string Encode(absl::Span<const CallNote> notes) {
  std::vector<std::string> lines;
  for (const CallNote& note : notes) lines.push_back(EncodeOne(note));
  return absl::StrJoin(lines, "\n");
}

absl::StatusOr<std::vector<CallNote>> DecodeCallNotes(absl::string_view text, int size) {
  std::vector<CallNote> notes;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    DP_ASSIGN_OR_RETURN(notes.emplace_back(), DecodeOne(line, size));
  }
  return notes;
}

void CallLedger::Called(CallNote note) {
  if (own_.size() == kCallsKept) own_.erase(own_.begin());
  own_.push_back(std::move(note));
}

std::string CallLedger::Notes() const { return Encode(own_); }

void CallLedger::Heard(int rank, std::vector<CallNote> notes) { heard_[rank] = std::move(notes); }

absl::Status CallLedger::Check() const {
  std::set<uint64_t> numbers;
  for (const auto& [rank, notes] : heard_)
    for (const CallNote& note : notes) numbers.insert(note.number);
  for (const uint64_t number : numbers) DP_RETURN_IF_ERROR(CheckNumber(number));
  return absl::OkStatus();
}

absl::Status CallLedger::CheckNumber(uint64_t number) const {
  std::map<int, const CallNote*> calls;
  for (const CallNote& note : own_)
    if (note.number == number) calls[0] = &note;
  for (const auto& [rank, notes] : heard_)
    for (const CallNote& note : notes)
      if (note.number == number) calls[rank] = &note;
  std::vector<int> left;
  for (const auto& [rank, note] : calls)
    if (note->leaves) left.push_back(rank);
  if (!left.empty() && left.size() < calls.size()) return HaveLeft(left);
  const auto [first, call] = *calls.begin();
  std::vector<PieceSizes> pieces(static_cast<size_t>(size_));
  for (const auto& [rank, note] : calls) {
    if (note->shape != call->shape)
      return absl::InvalidArgumentError(absl::StrCat("rank ", first, " calls ", TextOf(call->shape),
                                                     ", rank ", rank, " calls ",
                                                     TextOf(note->shape)));
    pieces[static_cast<size_t>(rank)] = note->pieces;
  }
  return CheckPiecesAgree(pieces);
}

}  // namespace dp::engine
