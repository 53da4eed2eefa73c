#include "tests/fuzz/seeds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/wire/protocol.h"

namespace dp::fuzz {
namespace {

using wire::Dialect;
using wire::Verb;

wire::Request RequestOf(Verb verb) {
  wire::Request request{verb};
  for (wire::Shape field = wire::RequestShape(verb); *field != '\0'; ++field) {
    if (*field == 'k') request.fields.strings.push_back("/k");
    if (*field == 'v') request.fields.strings.push_back("7");
    if (*field == 'n') request.fields.number = 2;
    if (*field == 'u') request.fields.number = verb == Verb::kValidate ? wire::kMagic : 99;
  }
  return request;
}

}  // namespace

std::vector<std::string> WireSeeds() {
  std::vector<std::string> seeds;
  for (const Dialect dialect : {Dialect::kA, Dialect::kB, Dialect::kC}) {
    std::string opening, all;
    if (dialect == Dialect::kC) AppendRequest(dialect, RequestOf(Verb::kValidate), &opening);
    all = opening;
    for (size_t verb = 1; verb < wire::kVerbs; ++verb) {
      if (!CodeOf(static_cast<Verb>(verb), dialect)) continue;
      std::string one = opening;
      AppendRequest(dialect, RequestOf(static_cast<Verb>(verb)), &one);
      seeds.push_back(one);
      all += one.substr(opening.size());
    }
    seeds.push_back(all);
  }
  return seeds;
}

void ForEachPiece(absl::string_view input,
                  const std::function<void(uint8_t who, absl::string_view bytes)>& hear) {
  while (input.size() >= 2) {
    const auto who = static_cast<uint8_t>(input[0]);
    const size_t size = std::min<size_t>(static_cast<uint8_t>(input[1]), input.size() - 2);
    hear(who, input.substr(2, size));
    input.remove_prefix(2 + size);
  }
}

std::vector<std::string> InPieces(const std::vector<std::string>& inputs) {
  constexpr size_t kPieceBytes = 40;
  std::vector<std::string> all = inputs;
  for (const std::string& input : inputs) {
    std::string pieces;
    for (size_t at = 0; at < input.size(); at += kPieceBytes) {
      const std::string piece = input.substr(at, kPieceBytes);
      for (const char who : {'\0', '\1'})
        absl::StrAppend(&pieces, std::string(1, who),
                        std::string(1, static_cast<char>(piece.size())), piece);
    }
    all.push_back(pieces);
  }
  return all;
}

uint8_t TakeChoice(absl::string_view* input) {
  if (input->empty()) return 0;
  const auto choice = static_cast<uint8_t>(input->front());
  input->remove_prefix(1);
  return choice;
}

std::string Chosen(uint8_t choice, absl::string_view input) {
  return absl::StrCat(std::string(1, static_cast<char>(choice)), input);
}

absl::string_view TakeSized(absl::string_view* input) {
  const size_t high = TakeChoice(input);
  const size_t announced = high << 8 | TakeChoice(input);
  const absl::string_view part = input->substr(0, announced);
  input->remove_prefix(part.size());
  return part;
}

std::string Sized(absl::string_view bytes) {
  return absl::StrCat(std::string(1, static_cast<char>(bytes.size() >> 8)),
                      std::string(1, static_cast<char>(bytes.size())), bytes);
}

absl::string_view TakePart(absl::string_view* input, char separator) {
  const size_t end = std::min(input->find(separator), input->size());
  const absl::string_view part = input->substr(0, end);
  input->remove_prefix(std::min(end + 1, input->size()));
  return part;
}

}  // namespace dp::fuzz
