#include "tests/fuzz/seeds.h"

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

}  // namespace dp::fuzz
