#include "client/dpctl/view/job_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/view/checkpoint_view.h"
#include "client/dpctl/view/plan_view.h"
#include "client/dpctl/view/printable.h"
#include "client/dpctl/view/table.h"
#include "proto/convert/time.h"
#include "proto/job/job_spec.h"

namespace dp::ctl {
namespace {

void WriteTime(absl::string_view key, bool set, const google::protobuf::Timestamp& time,
               JsonWriter& json) {
  if (!set) return json.NullField(key);
  json.Field(key, absl::FormatTime(absl::RFC3339_full, FromProto(time), absl::UTCTimeZone()));
}

// Null for 0, which is no job's number.
void WriteJobNumber(absl::string_view key, uint64_t job, JsonWriter& json) {
  json.Key(key);
  job == 0 ? json.Null() : json.UInt(job);
}

// Writes the exit of a process; both fields are null while it runs.
void WriteExit(const v1::Exit& exit, JsonWriter& json) {
  json.Key("exitCode");
  exit.has_code() ? json.Int(exit.code()) : json.Null();
  json.Key("signal");
  exit.has_signal() ? json.Int(exit.signal()) : json.Null();
}

void WriteRank(const v1::Rank& rank, JsonWriter& json) {
  json.BeginObject();
  json.Field("rank", rank.rank());
  json.Field("state", NameOf(rank.state()));
  json.TextOrNull("worker", rank.worker());
  json.TextOrNull("host", rank.host());
  json.Field("slot", rank.slot());
  json.Key("pid");
  rank.pid() == 0 ? json.Null() : json.Int(rank.pid());
  WriteExit(rank.exit(), json);
  json.EndObject();
}

void WriteStrings(absl::string_view key, const google::protobuf::RepeatedPtrField<std::string>& all,
                  JsonWriter& json) {
  json.Key(key);
  json.BeginArray();
  for (const std::string& one : all) json.String(one);
  json.EndArray();
}

void WriteFailureFields(const v1::Failure& failure, JsonWriter& json) {
  json.Field("message", failure.message());
  json.Key("rank");
  failure.worker().empty() ? json.Null() : json.Int(failure.rank());
  json.TextOrNull("worker", failure.worker());
  json.TextOrNull("host", failure.host());
  WriteTime("at", failure.has_at(), failure.at(), json);
  WriteStrings("lastLines", failure.last_lines(), json);
}

void WriteFailure(const v1::Job& job, JsonWriter& json) {
  json.Key("failure");
  if (!job.has_failure()) return json.Null();
  json.BeginObject();
  WriteFailureFields(job.failure(), json);
  json.EndObject();
}

void WritePastFailures(const v1::Job& job, JsonWriter& json) {
  json.Key("pastFailures");
  json.BeginArray();
  for (const v1::Failure& failure : job.past_failures()) {
    json.BeginObject();
    json.Field("generation", failure.generation());
    json.TextOrNull("failureClass", NameOf(failure.failure_class()));
    json.TextOrNull("countedAs", NameOf(failure.counted_as()));
    WriteJobNumber("preemptedBy", failure.preempted_by(), json);
    WriteExit(failure.exit(), json);
    WriteFailureFields(failure, json);
    json.EndObject();
  }
  json.EndArray();
}

void WriteBudgets(const v1::Job& job, JsonWriter& json) {
  json.Key("restartBudgets");
  json.BeginArray();
  for (const v1::RestartBudget& budget : job.restart_budgets()) {
    json.BeginObject();
    json.TextOrNull("failureClass", NameOf(budget.failure_class()));
    json.Field("used", budget.used());
    json.Field("limit", budget.limit());
    json.Key("windowSeconds");
    budget.has_window() ? json.Int(budget.window().seconds()) : json.Null();
    json.EndObject();
  }
  json.EndArray();
}

std::string When(bool set, const google::protobuf::Timestamp& proto, absl::Time now) {
  if (!set) return "-";
  const absl::Time time = FromProto(proto);
  return absl::StrCat(absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone()), " (",
                      AgeText(now - time), " ago)");
}

void DescribeRanks(const v1::Job& job, std::ostream& out) {
  if (job.ranks().empty()) return;
  Table table({"RANK", "STATE", "WORKER", "HOST", "SLOT", "PID", "EXIT"});
  for (const v1::Rank& rank : job.ranks()) {
    table.Add({absl::StrCat(rank.rank()), NameOf(rank.state()), rank.worker(), rank.host(),
               absl::StrCat(rank.slot()), rank.pid() == 0 ? "" : absl::StrCat(rank.pid()),
               ExitText(rank.exit())});
  }
  out << "Ranks:\n";
  table.Print(out, /*with_headings=*/true, "  ");
}

void PrintLastLines(const v1::Failure& failure, absl::string_view indent, std::ostream& out) {
  for (const std::string& line : failure.last_lines()) out << indent << Printable(line) << '\n';
}

// Each with the jobs in the way, if the coordinator names them.
std::vector<std::string> ReasonsOf(const v1::Job& job) {
  std::vector<std::string> reasons;
  for (const v1::PendingReason& reason : job.waits_for()) reasons.push_back(ReasonText(reason));
  if (reasons.empty()) reasons.assign(job.pending_reasons().begin(), job.pending_reasons().end());
  return reasons;
}

// As the coordinator knows it. A name that nobody has proven is only what the job counts by in
// limits.
std::string UserOf(const v1::Job& job) { return job.owner().empty() ? job.user() : job.owner(); }

// Shows what determines the job's place in the queue, and its deadline.
void DescribeTurn(const v1::Job& job, absl::Time now, std::ostream& out) {
  if (const std::string user = UserOf(job); !user.empty()) {
    const bool proven = user == job.user() || job.user().empty();
    out << "User:        " << Printable(user)
        << (proven ? ""
                   : absl::StrCat(" (submitted as ", Printable(job.user()), ", without proof)"))
        << '\n';
  }
  if (!job.spec().queue().empty()) out << "Queue:       " << job.spec().queue() << '\n';
  if (job.priority() != 0) out << "Priority:    " << job.priority() << '\n';
  if (job.queue_position() > 0) out << "Position:    " << job.queue_position() << '\n';
  if (job.spec().preemptible()) out << "Preemptible: yes\n";
  if (!job.spec().secrets().empty())
    out << "Secrets:     " << absl::StrJoin(job.spec().secrets(), ", ") << '\n';
  if (job.has_deadline())
    out << "Deadline:    in " << AgeText(FromProto(job.deadline()) - now) << '\n';
}

void DescribeEnd(const v1::Job& job, std::ostream& out) {
  if (job.stopped_early().empty()) return;
  out << "Ended early: " << Printable(job.stopped_early()) << '\n';
}

void DescribeFailure(const v1::Job& job, std::ostream& out) {
  if (!job.has_failure()) return;
  out << "Failure:     " << Printable(job.failure().message()) << '\n';
  const std::string failure_class = NameOf(job.failure().failure_class());
  if (!failure_class.empty()) out << "  class:     " << failure_class << '\n';
  if (!job.not_restarted_because().empty())
    out << "  not restarted: " << Printable(job.not_restarted_because()) << '\n';
  if (job.failure().last_lines().empty()) return;
  out << "  last lines:\n";
  PrintLastLines(job.failure(), "    ", out);
}

// "2 (user 0/3, infra 2/10 within 1h, hang 0/3 within 1h)"
std::string RestartsText(const v1::Job& job) {
  std::vector<std::string> budgets;
  for (const v1::RestartBudget& budget : job.restart_budgets()) {
    budgets.push_back(absl::StrCat(
        NameOf(budget.failure_class()), " ", budget.used(), "/", budget.limit(),
        budget.has_window()
            ? absl::StrCat(" within ", absl::FormatDuration(FromProto(budget.window())))
            : ""));
  }
  return absl::StrCat(job.restarts(), " (", absl::StrJoin(budgets, ", "), ")");
}

void DescribePast(const v1::Job& job, absl::Time now, std::ostream& out) {
  if (job.past_failures().empty()) return;
  out << "Earlier failures:\n";
  for (const v1::Failure& failure : job.past_failures()) {
    out << "  generation " << failure.generation() << ", "
        << When(failure.has_at(), failure.at(), now) << ", " << NameOf(failure.failure_class())
        << ": " << Printable(failure.message()) << '\n';
    PrintLastLines(failure, "    ", out);
  }
}

void WriteItems(const std::vector<v1::Job>& jobs, std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Key("items");
  json.BeginArray();
  for (const v1::Job& job : jobs) WriteJob(job, json);
  json.EndArray();
  json.EndObject();
}

}  // namespace

int WorldSizeOf(const v1::Job& job) {
  return job.world_size() > 0 ? job.world_size() : job.spec().ranks();
}

void WriteJob(const v1::Job& job, JsonWriter& json) {
  WriteJob(job, json, [] {});
}

void WriteJob(const v1::Job& job, JsonWriter& json, absl::FunctionRef<void()> more) {
  const bool over = Finished(job.state());
  json.BeginObject();
  json.Field("id", job.id());
  json.Field("name", job.spec().name());
  json.Field("state", NameOf(job.state()));
  json.Field("generation", job.generation());
  json.Field("worldSize", WorldSizeOf(job));
  json.TextOrNull("nodes", NodesField(job.spec()));
  json.TextOrNull("user", UserOf(job));
  json.TextOrNull("queue", job.spec().queue());
  json.Field("priority", job.priority());
  json.Field("held", job.held());
  json.Field("preemptible", job.spec().preemptible());
  WriteStrings("secrets", job.spec().secrets(), json);
  WriteJobNumber("preemptedBy", job.preempted_by(), json);
  json.Key("queuePosition");
  job.queue_position() > 0 ? json.Int(job.queue_position()) : json.Null();
  if (over && job.state() == v1::JOB_STATE_SUCCEEDED) {
    json.Field("exitCode", kSuccess);
    json.NullField("signal");
  } else {
    WriteExit(job.failure().exit(), json);
  }
  json.TextOrNull("failureClass", NameOf(job.failure().failure_class()));
  WriteTime("submittedAt", job.has_submitted_at(), job.submitted_at(), json);
  WriteTime("placedAt", job.has_placed_at(), job.placed_at(), json);
  WriteTime("runningAt", job.has_running_at(), job.running_at(), json);
  WriteTime("finishedAt", job.has_finished_at(), job.finished_at(), json);
  WriteTime("deadline", job.has_deadline(), job.deadline(), json);
  WriteStrings("pendingReasons", job.pending_reasons(), json);
  json.Field("restarts", job.restarts());
  WriteBudgets(job, json);
  WriteTime("notBefore", job.has_not_before(), job.not_before(), json);
  json.TextOrNull("notRestartedBecause", job.not_restarted_because());
  json.TextOrNull("stoppedEarly", job.stopped_early());
  WriteReasons(job.waits_for(), json);
  json.Key("ranks");
  json.BeginArray();
  for (const v1::Rank& rank : job.ranks()) WriteRank(rank, json);
  json.EndArray();
  WriteFailure(job, json);
  WritePastFailures(job, json);
  WriteLeft(job, json);
  more();
  json.EndObject();
}

void PrintJobs(const std::vector<v1::Job>& jobs, Format format, std::ostream& out,
               absl::FunctionRef<void()> print_table) {
  switch (format) {
    case Format::kName:
      for (const v1::Job& job : jobs) out << job.id() << '\n';
      return;
    case Format::kJson:
      return WriteItems(jobs, out);
    case Format::kTable:
      return print_table();
  }
}

void DescribeJob(const v1::Job& job, absl::Time now, std::ostream& out) {
  out << "Job:         " << job.id() << '\n'
      << "Name:        " << job.spec().name() << '\n'
      << "State:       " << NameOf(job.state()) << '\n'
      << "Generation:  " << job.generation() << '\n'
      << "World size:  " << WorldSizeOf(job) << '\n';
  if (IsElastic(job.spec()))
    out << "Nodes:       " << WorkersOf(job).size() << " of " << NodesField(job.spec()) << '\n';
  DescribeTurn(job, now, out);
  out << "Submitted:   " << When(job.has_submitted_at(), job.submitted_at(), now) << '\n'
      << "Running:     " << When(job.has_running_at(), job.running_at(), now) << '\n'
      << "Finished:    " << When(job.has_finished_at(), job.finished_at(), now) << '\n';
  if (!job.restart_budgets().empty()) out << "Restarts:    " << RestartsText(job) << '\n';
  for (const std::string& reason : ReasonsOf(job))
    out << "Pending:     " << Printable(reason) << '\n';
  if (job.has_not_before() && FromProto(job.not_before()) > now)
    out << "Due in:      " << AgeText(FromProto(job.not_before()) - now) << '\n';
  DescribeEnd(job, out);
  DescribeFailure(job, out);
  DescribePast(job, now, out);
  DescribeLeft(job, out);
  DescribeRanks(job, out);
}

void PrintFailure(const v1::Job& job, std::ostream& err) {
  err << "dpctl: job " << job.id() << " failed: " << Printable(job.failure().message()) << '\n';
  PrintLastLines(job.failure(), "  | ", err);
  if (!job.not_restarted_because().empty())
    err << "dpctl: not restarted: " << Printable(job.not_restarted_because()) << '\n';
}

std::string AgeText(absl::Duration age) {
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(age));
  const int64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
  if (minutes == 0) return absl::StrCat(seconds, "s");
  if (hours == 0) return absl::StrCat(minutes, "m", seconds % 60, "s");
  if (days == 0) return absl::StrCat(hours, "h", minutes % 60, "m");
  return absl::StrCat(days, "d", hours % 24, "h");
}

std::vector<std::string> WorkersOf(const v1::Job& job) {
  std::vector<std::string> workers;
  for (const v1::Rank& rank : job.ranks())
    if (std::find(workers.begin(), workers.end(), rank.worker()) == workers.end())
      workers.push_back(rank.worker());
  return workers;
}

}  // namespace dp::ctl
