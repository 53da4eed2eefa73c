#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/event_view.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/table.h"
#include "client/dpctl/view/time_text.h"
#include "dp/v1/access.grpc.pb.h"
#include "dp/v1/jobs.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

// An act of somebody: an event, or calls that were refused.
struct Entry {
  v1::Event event;
  v1::Refusal refusal;  // has an `rpc` if the entry is one

  bool refused() const { return !refusal.rpc().empty(); }
  absl::Time at() const { return FromProto(refused() ? refusal.at() : event.at()); }
  const std::string& who() const { return refused() ? refusal.caller() : event.actor(); }
  std::string what() const { return refused() ? "refused" : event.kind(); }
};

// Other events are the coordinator's own decisions, and what happened to ranks and workers.
bool IsAct(const v1::Event& event) {
  return !event.actor().empty() || (event.job() == 0 && event.worker().empty());
}

absl::Status AddEvents(Context& context, std::vector<Entry>& entries) {
  v1::WatchEventsRequest request;
  *request.mutable_timeout() = ToProto(absl::ZeroDuration());
  while (true) {
    DP_ASSIGN_OR_RETURN(const v1::WatchEventsResponse page,
                        context.Call(&v1::Jobs::Stub::WatchEvents, request));
    for (const v1::Event& event : page.events()) {
      if (IsAct(event)) entries.push_back({.event = event});
    }
    // A page without events may stand for events that the caller may not see.
    if (page.next_since() <= request.since()) return absl::OkStatus();
    request.set_since(page.next_since());
  }
}

absl::Status AddRefusals(Context& context, std::vector<Entry>& entries) {
  DP_ASSIGN_OR_RETURN(const v1::ListRefusalsResponse response,
                      context.Call(&v1::Access::Stub::ListRefusals, {}));
  for (const v1::Refusal& refusal : response.refusals()) entries.push_back({.refusal = refusal});
  return absl::OkStatus();
}

std::string DetailOf(const v1::Refusal& refusal) {
  const std::string calls =
      refusal.count() > 1 ? absl::StrCat(", ", refusal.count(), " calls") : "";
  const absl::string_view from = refusal.peer().empty() ? "" : "; from ";
  return absl::StrCat(refusal.reason(), from, refusal.peer(), calls);
}

void WriteEntry(const Entry& entry, JsonWriter& json) {
  json.BeginObject();
  WriteTime("at", entry.at(), json);
  json.TextOrNull("actor", entry.who());
  json.Field("kind", entry.what());
  json.Key("job");
  entry.event.job() == 0 ? json.Null() : json.UInt(entry.event.job());
  json.TextOrNull("worker", entry.event.worker());
  json.TextOrNull("rpc", entry.refusal.rpc());
  json.TextOrNull("peer", entry.refusal.peer());
  json.Field("count", entry.refused() ? entry.refusal.count() : uint64_t{1});
  json.TextOrNull("text", entry.refused() ? entry.refusal.reason() : entry.event.text());
  json.EndObject();
}

class Audit final : public Command {
 public:
  const char* name() const override { return "audit"; }
  const char* summary() const override { return "Show who did what, and which calls were refused"; }
  const char* example() const override {
    return "dpctl audit -n 20\n  dpctl audit --refusals -o json | jq '.items[].actor'";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_flag("--refusals", refusals_, "Only calls that were refused");
    AddNumber(app, "-n,--last", last_, "Only the latest NUMBER lines");
  }

  absl::StatusOr<int> Run(Context& context) override {
    if (context.flags().format == Format::kName) {
      return absl::InvalidArgumentError(
          "-o name prints ids, and refused calls have none; use table or json");
    }
    std::vector<Entry> entries;
    if (!refusals_) DP_RETURN_IF_ERROR(AddEvents(context, entries));
    const absl::Status listed = AddRefusals(context, entries);
    const bool partly = absl::IsPermissionDenied(listed) && !refusals_;
    if (!listed.ok() && !partly) return listed;
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.at() < b.at(); });
    const size_t surplus = entries.size() - std::min<uint64_t>(entries.size(), last_);
    entries.erase(entries.begin(), entries.begin() + static_cast<ptrdiff_t>(surplus));
    context.flags().format == Format::kJson ? PrintJson(entries, context.out())
                                            : PrintTable(entries, context);
    if (partly) {
      context.out().flush();
      context.err() << "dpctl: refused calls are not shown: " << listed.message() << '\n';
    }
    return kSuccess;
  }

 private:
  static void PrintJson(const std::vector<Entry>& entries, std::ostream& out) {
    JsonWriter json(out);
    json.BeginObject();
    json.Key("items");
    json.BeginArray();
    for (const Entry& entry : entries) WriteEntry(entry, json);
    json.EndArray();
    json.EndObject();
  }

  static void PrintTable(const std::vector<Entry>& entries, Context& context) {
    Table table({"AT", "WHO", "WHAT", "OBJECT", "DETAIL"});
    for (const Entry& entry : entries) {
      table.Add({TimeText(entry.at()), entry.who(), entry.what(),
                 entry.refused() ? entry.refusal.rpc() : ObjectText(entry.event),
                 entry.refused() ? DetailOf(entry.refusal) : entry.event.text()});
    }
    table.Print(context.out(), !context.flags().no_headers);
  }

  bool refusals_ = false;
  uint64_t last_ = std::numeric_limits<uint64_t>::max();
};

}  // namespace

std::unique_ptr<Command> MakeAudit() { return std::make_unique<Audit>(); }

}  // namespace dp::ctl
