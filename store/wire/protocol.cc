#include "store/wire/protocol.h"

#include "base/check.h"

namespace dp::wire {
namespace {

// A verb: its code in the dialects A, B and C (-1: none), and the shapes of its request and reply.
struct Row {
  absl::string_view name;
  int codes[3];
  Shape request;
  Shape reply;
};

// In the order of Verb.
constexpr std::array<Row, kVerbs> kTable = {{
    {"validate", {-1, -1, 0}, "u", ""},      {"set", {0, 0, 1}, "kv", ""},
    {"compare_set", {1, 1, 2}, "kvv", "v"},  {"get", {2, 2, 3}, "k", "v"},
    {"add", {3, 3, 4}, "kn", "n"},           {"check", {4, 4, 5}, "*k", "b"},
    {"wait", {5, 5, 6}, "*k", "b"},          {"num_keys", {6, 6, 7}, "", "n"},
    {"watch_key", {7, -1, -1}, "k", "b"},    {"delete_key", {8, 7, 8}, "k", "n"},
    {"append", {-1, 8, 9}, "kv", ""},        {"multi_get", {-1, 9, 10}, "*k", "+v"},
    {"multi_set", {-1, 10, 11}, "*kv", ""},  {"cancel_wait", {-1, 11, 12}, "", "b"},
    {"ping", {-1, -1, 13}, "u", "u"},        {"queue_push", {-1, -1, 14}, "kv", ""},
    {"queue_pop", {-1, -1, 15}, "k", "n?v"}, {"queue_len", {-1, -1, 16}, "k", "n"},
    {"list_keys", {-1, -1, 17}, "", "*k"},   {"barrier", {-1, -1, 18}, "kn", "b"},
}};

const Row& RowOf(Verb verb) { return kTable[static_cast<size_t>(verb)]; }

}  // namespace

absl::string_view NameOf(Verb verb) { return RowOf(verb).name; }

std::optional<uint8_t> CodeOf(Verb verb, Dialect dialect) {
  const int code = RowOf(verb).codes[static_cast<size_t>(dialect)];
  if (code < 0) return std::nullopt;
  return static_cast<uint8_t>(code);
}

std::optional<Verb> VerbOf(uint8_t code, Dialect dialect) {
  for (size_t verb = 0; verb < kVerbs; ++verb)
    if (kTable[verb].codes[static_cast<size_t>(dialect)] == code) return static_cast<Verb>(verb);
  return std::nullopt;
}

Shape RequestShape(Verb verb) { return RowOf(verb).request; }

Shape ReplyShape(Verb verb) { return RowOf(verb).reply; }

void AppendRequest(Dialect dialect, const Request& request, std::string* out) {
  const std::optional<uint8_t> code = CodeOf(request.verb, dialect);
  DP_CHECK(code.has_value());
  out->push_back(static_cast<char>(*code));
  AppendFields(RequestShape(request.verb), request.fields, out);
}

}  // namespace dp::wire
