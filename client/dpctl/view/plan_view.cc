#include "client/dpctl/view/plan_view.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/view/printable.h"
#include "client/dpctl/view/table.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

void WriteRank(const v1::PlannedRank& rank, JsonWriter& json) {
  json.BeginObject();
  json.Field("rank", rank.rank());
  json.Field("worker", rank.worker());
  json.Field("host", rank.host());
  json.Field("address", rank.address());
  json.TextOrNull("interface", rank.interface());
  json.Field("slot", rank.slot());
  json.Field("localRank", rank.local_rank());
  json.TextOrNull("rack", rank.rack());
  json.Field("gpu", rank.gpu());
  json.EndObject();
}

void WriteTimeout(const v1::PlannedTimeout& timeout, JsonWriter& json) {
  json.BeginObject();
  json.Field("name", timeout.name());
  json.Field("afterMs", absl::ToInt64Milliseconds(FromProto(timeout.after())));
  json.Field("what", timeout.what());
  json.EndObject();
}

size_t CountWorkers(const v1::PlanResponse& plan) {
  std::set<std::string> workers;
  for (const v1::PlannedRank& rank : plan.ranks()) workers.insert(rank.worker());
  return workers.size();
}

void ExplainRanks(const v1::PlanResponse& plan, std::ostream& out) {
  out << "job " << plan.spec().name() << " would start now: " << plan.ranks_size()
      << (plan.ranks_size() == 1 ? " rank on " : " ranks on ") << CountWorkers(plan)
      << (CountWorkers(plan) == 1 ? " worker\n" : " workers\n");
  Table table({"RANK", "WORKER", "HOST", "RACK", "SLOT", "GPU", "LOCAL", "ADDRESS", "INTERFACE"});
  for (const v1::PlannedRank& rank : plan.ranks()) {
    table.Add({absl::StrCat(rank.rank()), rank.worker(), rank.host(), rank.rack(),
               absl::StrCat(rank.slot()), rank.gpu() ? "yes" : "no",
               absl::StrCat(rank.local_rank()), rank.address(), rank.interface()});
  }
  table.Print(out, /*with_headings=*/true, "  ");
}

}  // namespace

void WriteReasons(const google::protobuf::RepeatedPtrField<v1::PendingReason>& reasons,
                  JsonWriter& json) {
  json.Key("waitsFor");
  json.BeginArray();
  for (const v1::PendingReason& reason : reasons) {
    json.BeginObject();
    json.Field("code", NameOf(reason.code()));
    json.Field("text", reason.text());
    json.Key("jobs");
    json.BeginArray();
    for (const uint64_t job : reason.jobs()) json.UInt(job);
    json.EndArray();
    json.Key("workers");
    json.BeginArray();
    for (const std::string& worker : reason.workers()) json.String(worker);
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
}

void WritePlan(const v1::PlanResponse& plan, JsonWriter& json) {
  json.BeginObject();
  json.Field("name", plan.spec().name());
  json.Field("startsNow", plan.ranks_size() > 0);
  json.Key("queuePosition");
  plan.queue_position() > 0 ? json.Int(plan.queue_position()) : json.Null();
  WriteReasons(plan.waits_for(), json);
  json.Key("ranks");
  json.BeginArray();
  for (const v1::PlannedRank& rank : plan.ranks()) WriteRank(rank, json);
  json.EndArray();
  json.Key("timeouts");
  json.BeginArray();
  for (const v1::PlannedTimeout& timeout : plan.timeouts()) WriteTimeout(timeout, json);
  json.EndArray();
  json.EndObject();
}

void ExplainPlan(const v1::PlanResponse& plan, std::ostream& out) {
  if (plan.ranks_size() > 0) {
    ExplainRanks(plan, out);
  } else {
    out << "job " << plan.spec().name() << " would wait";
    if (plan.queue_position() > 0)
      out << ", at position " << plan.queue_position() << " of the queue";
    out << '\n';
    for (const v1::PendingReason& reason : plan.waits_for()) {
      out << "  " << Printable(ReasonText(reason)) << '\n';
    }
  }
  if (plan.timeouts().empty()) return;
  out << "Timeouts:\n";
  Table table({"NAME", "AFTER", "WHAT"});
  for (const v1::PlannedTimeout& timeout : plan.timeouts()) {
    table.Add({timeout.name(), absl::FormatDuration(FromProto(timeout.after())), timeout.what()});
  }
  table.Print(out, /*with_headings=*/true, "  ");
}

std::string ReasonText(const v1::PendingReason& reason) {
  if (reason.code() != v1::PENDING_CODE_RESOURCES && reason.code() != v1::PENDING_CODE_LIMIT)
    return reason.text();
  if (reason.jobs().empty()) return reason.text();
  return absl::StrCat(reason.text(), reason.jobs_size() == 1 ? " (held by job " : " (held by jobs ",
                      absl::StrJoin(reason.jobs(), ", "), ")");
}

}  // namespace dp::ctl
