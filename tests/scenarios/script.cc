#include "tests/scenarios/script.h"

#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/policy/due_jobs.h"
#include "server/policy/handovers.h"
#include "server/policy/placement.h"
#include "server/policy/retry_policy.h"
#include "tests/journals/reload.h"
#include "tests/scenarios/describe.h"
#include "tests/scenarios/line_values.h"

namespace dp::scenarios {
std::string Script::Annotate(absl::string_view file) {
  std::string annotated;
  for (const absl::string_view text : absl::StrSplit(file, '\n')) {
    if (text.substr(0, 2) == "  ") continue;
    absl::StrAppend(&annotated, text, "\n");
    if (text.empty() || text.front() == '#') continue;
    for (const std::string& line : Run(Line::Parse(text))) {
      absl::StrAppend(&annotated, "  ", line, "\n");
    }
  }
  annotated.pop_back();  // the last line of the file already ends with one
  return annotated;
}

Script::Lines Script::Run(const Line& line) {
  try {
    Lines lines = line.word(0) == "show" ? Show(line) : RunCommand(line);
    AppendBroken(lines);
    return lines;
  } catch (const std::exception& error) {
    return {absl::StrCat("the script has a mistake in this line: ", error.what())};
  }
}

Script::Lines Script::RunCommand(const Line& line) {
  using What = core::ReportRank::What;
  const std::string& verb = line.word(0);
  if (verb == "register") return Apply(Register(line));
  if (verb == "lose") {
    const core::Worker& worker = Named(line.word(1));
    return Apply(core::LoseWorker{worker.id, worker.incarnation, line.option("reason", "silent")});
  }
  if (verb == "leave") {
    const core::Worker& worker = Named(line.word(1));
    return Apply(core::LeaveWorker{worker.id, worker.incarnation});
  }
  if (verb == "submit") return Apply(Submission(line));
  if (verb == "cancel") return Apply(core::CancelJob{JobId(ToNumber(line.word(1)))});
  if (verb == "hold") return Apply(core::HoldJob{JobId(ToNumber(line.word(1)))});
  if (verb == "release") return Apply(core::ReleaseJob{JobId(ToNumber(line.word(1)))});
  if (verb == "priority") {
    return Apply(core::PrioritizeJob{JobId(ToNumber(line.word(1))), ToNumber(line.word(2))});
  }
  if (verb == "requeue") {
    return Apply(
        core::RequeueJob{JobId(ToNumber(line.word(1))), Generation(line.number("generation", 0))});
  }
  if (verb == "drain") {
    return Apply(core::DrainWorker{line.word(1), line.option("reason", "maintenance"),
                                   line.option("hand-over", "no") == "yes"});
  }
  if (verb == "slots") return Apply(SlotsReport(line));
  if (verb == "undrain") return Apply(core::UndrainWorker{line.word(1)});
  if (verb == "limit") return SetLimit(line);
  if (verb == "due") return JudgeTime();
  if (verb == "place") return PlaceAll();
  if (verb == "join") {
    return Apply(core::JoinWorld{Rank(line), line.option("tells", "") == "first-step"});
  }
  if (verb == "stepped") return Apply(core::CompleteFirstStep{Rank(line)});
  if (verb == "stops-early") {
    return Apply(core::StopEarly{Rank(line), line.option("reason", "")});
  }
  if (verb == "checkpoint" || verb == "weights") return Apply(Made(line));
  if (verb == "handover") {
    core::AskHandover ask{JobId(ToNumber(line.word(1))), line.option("reason", "asked")};
    ask.version = line.number("version", core::AskHandover::kVersion);
    return Apply(std::move(ask));
  }
  if (verb == "accuse") return Apply(Accusation(line));
  if (verb == "give-up") {
    return Apply(core::GiveUpRank{Rank(line), line.option("reason", "it has not joined")});
  }
  if (verb == "started") return Apply(Report(line, What::kStarted));
  if (verb == "exited") return Apply(Report(line, What::kExited));
  if (verb == "released") return Apply(Report(line, What::kReleased));
  if (verb == "store") {
    return Apply(core::StoreBatch{JobId(ToNumber(line.word(1))),
                                  Generation(line.number("generation", 1)),
                                  static_cast<uint64_t>(line.number("client", 0)),
                                  static_cast<uint64_t>(line.number("sequence", 0)),
                                  {Operation(line)}});
  }
  if (verb == "repeat") return Apply(last_);
  if (verb == "ports") return UsePorts(line);
  if (verb == "pass") return Pass(line);
  if (verb == "retries") return DecideRetries();
  if (verb == "restart") return Restart();
  throw std::invalid_argument(verb);
}

Script::Lines Script::Apply(core::Action action) {
  now_ += absl::Seconds(1);
  last_ = action;
  coordinator_ = core::Coordinator(reload::Reload(coordinator_.state()));
  const core::Command command{now_, std::move(action)};
  const core::Outcome outcome = coordinator_.Apply(command);
  if (outcome.journal) journal_.push_back(command);
  if (!outcome.status.ok()) return {absl::StrCat("refused: ", outcome.status.ToString())};
  Lines lines = {DescribeReply(outcome.reply)};
  if (!outcome.journal) lines.back() += ", nothing new";
  if (outcome.changed.empty()) return lines;
  std::vector<std::string> moved;
  for (const core::Topic& topic : outcome.changed) {
    // The history moves with the states of jobs and workers, and a world's state with the world.
    // Both are listed already.
    using Kind = core::Topic::Kind;
    if (topic.kind == Kind::kEvents || topic.kind == Kind::kWorldState) continue;
    moved.push_back(Describe(topic));
  }
  lines.push_back(absl::StrCat("moves ", absl::StrJoin(moved, ", ")));
  return lines;
}

Script::Lines Script::DecideRetries() {
  Lines lines;
  for (const core::Action& verdict : core::PlanRetries(coordinator_, now_)) {
    lines.push_back(DescribeVerdict(verdict, now_));
    for (std::string& line : Apply(verdict)) lines.push_back(std::move(line));
  }
  return lines;
}

Script::Lines Script::UsePorts(const Line& line) {
  core::StorePortRange& ports = policy_.ports;
  ports = {line.number("first", ports.first), line.number("last", ports.last), ports.rest};
  return {"ok"};
}

Script::Lines Script::Pass(const Line& line) {
  absl::Duration time;
  if (!absl::ParseDuration(line.word(1), &time)) throw std::invalid_argument(line.word(1));
  now_ += time;
  return {"ok"};
}

Script::Lines Script::PlaceAll() {
  const core::Placement placement = core::PlanPlacement(coordinator_, policy_, now_);
  Lines lines;
  for (const core::PlaceJob& place : placement.place) {
    for (std::string& line : Apply(place)) lines.push_back(std::move(line));
    lines.push_back(DescribePlaces(*coordinator_.job(place.job)));
  }
  for (const core::Departure& departure : placement.leave) {
    lines.push_back(
        absl::StrCat("job ", departure.job.ToString(), " is to leave: ", departure.reason));
  }
  for (core::Action& verdict : core::AskToLeave(coordinator_, placement.leave, now_)) {
    for (std::string& line : Apply(std::move(verdict))) lines.push_back(std::move(line));
  }
  for (const auto& [job, waiting] : placement.waiting) {
    lines.push_back(absl::StrCat(
        "job ", job.ToString(),
        " waits: ", absl::StrJoin(waiting.reasons, "; ", [](std::string* out, const auto& reason) {
          absl::StrAppend(out, reason.text);
        })));
  }
  return lines;
}

Script::Lines Script::SetLimit(const Line& line) {
  const core::Limit none;
  const core::Limit limit{line.number("slots", none.slots), line.number("jobs", none.jobs)};
  (line.word(1) == "user" ? policy_.limits.users : policy_.limits.queues)[line.word(2)] = limit;
  return {"ok"};
}

Script::Lines Script::JudgeTime() {
  const core::DueJobs due = core::FindDueJobs(coordinator_, now_);
  Lines lines;
  const auto apply = [&](JobId job, const char* what, core::Action action) {
    lines.push_back(absl::StrCat("job ", job.ToString(), " ", what));
    for (std::string& line : Apply(std::move(action))) lines.push_back(std::move(line));
  };
  for (const core::AskHandover& ask : due.ask) apply(ask.job, "is asked to hand over", ask);
  for (const core::RequeueJob& requeue : due.requeue)
    apply(requeue.job, "has not left in time", requeue);
  for (const core::ExpireJob& expire : due.expire)
    apply(expire.job, "has run for too long", expire);
  for (const core::ForgetJob& forget : due.forget) apply(forget.job, "is forgotten", forget);
  for (core::Action& verdict : core::FindHandovers(coordinator_)) {
    const auto* ask = std::get_if<core::AskHandover>(&verdict);
    const JobId job = ask != nullptr ? ask->job : std::get<core::RequeueJob>(verdict).job;
    apply(job, ask != nullptr ? "is asked to hand over" : "is to go on elsewhere",
          std::move(verdict));
  }
  if (lines.empty()) lines.push_back("nothing is due");
  return lines;
}

core::SubmitJob Script::Submission(const Line& line) {
  return {line.option("request", absl::StrCat("auto-", ++last_request_)), SpecOf(line),
          line.option("by", "")};
}

// Kills the coordinator and starts a new one from the journal.
Script::Lines Script::Restart() {
  const uint64_t before = coordinator_.StateDigest();
  coordinator_ = core::Coordinator();
  for (const core::Command& command : journal_) coordinator_.Apply(command);
  Lines lines = {coordinator_.StateDigest() == before ? "replayed to the same state"
                                                      : "REPLAYED TO ANOTHER STATE"};
  for (std::string& line : Apply(core::StartEpoch{})) lines.push_back(std::move(line));
  return lines;
}

void Script::AppendBroken(Lines& lines) {
  for (const std::string& broken : invariants_.Broken(coordinator_.state())) {
    lines.push_back(absl::StrCat("BROKEN: ", broken));
  }
}

core::RegisterWorker Script::Register(const Line& line) {
  const uint64_t life = line.number("life", static_cast<int>(last_life_ + 1));
  last_life_ = std::max(last_life_, life);
  const std::string& host = line.word(1);
  core::RegisterWorker worker{line.option("name", ""), host,
                              host + ".test",          Incarnation(life),
                              line.number("slots", 1), PortsOf(line)};
  worker.gpus = line.number("gpus", 0);
  worker.trains_on_gpus = line.option("trains", "") == "on-gpus";
  const std::string labels = line.option("labels", "");
  for (const auto each : absl::StrSplit(labels, ',', absl::SkipEmpty())) {
    const Label label = *ParseLabel(each);
    worker.labels[label.key] = label.value;
  }
  return worker;
}

// By default the report comes from the rank's worker, in its current incarnation.
core::ReportRank Script::Report(const Line& line, core::ReportRank::What what) const {
  core::ReportRank report;
  report.rank = Rank(line);
  const core::Job* job = coordinator_.job(report.rank.job);
  const bool known = job != nullptr && static_cast<size_t>(report.rank.rank) < job->ranks.size();
  if (line.options.count("worker") > 0) {
    report.worker = Named(line.option("worker", "")).id;
  } else if (known) {
    report.worker = job->ranks[report.rank.rank].worker_id;
  }
  const core::Worker* worker = coordinator_.worker(report.worker);
  const int life = worker == nullptr ? 0 : static_cast<int>(worker->incarnation.value());
  report.incarnation = Incarnation(line.number("life", life));
  report.what = what;
  report.pid = what == core::ReportRank::What::kStarted ? 100 + report.rank.rank : 0;
  report.exit = ExitOf(line);
  report.error = line.option("error", "");
  report.stopped = line.option("stopped", "no") == "yes";
  report.oom = line.option("oom", "no") == "yes";
  if (line.options.count("says") > 0) report.last_lines = {line.option("says", "")};
  return report;
}

core::AccusePeers Script::Accusation(const Line& line) const {
  core::AccusePeers accusation{
      Rank(line), {}, line.option("error", ""), line.option("insist", "no") == "yes"};
  const std::string missing = line.option("missing", "");
  for (const absl::string_view rank : absl::StrSplit(missing, ',', absl::SkipEmpty())) {
    accusation.missing.push_back(ToNumber(std::string(rank)));
  }
  return accusation;
}

core::ReportSlots Script::SlotsReport(const Line& line) const {
  const core::Worker& worker = Named(line.word(1));
  core::ReportSlots report{
      worker.id, worker.incarnation, static_cast<uint64_t>(line.number("number", 1)), {}};
  if (line.options.contains("unhealthy")) {
    report.unhealthy[line.number("unhealthy", 0)] = line.option("reason", "no answer");
  }
  return report;
}

// "checkpoint JOB/RANK step=10" and "weights JOB/RANK": files with derived names and hashes.
core::Action Script::Made(const Line& line) const {
  const std::string hash(64, line.option("hash", "a").front());
  const core::RankKey rank = Rank(line);
  if (line.word(0) == "weights") return core::RegisterWeights{rank, "/out/w", hash, 100};
  const int step = line.number("step", 0);
  return core::RegisterCheckpoint{rank,
                                  step,
                                  absl::StrCat("/ckpt/", step),
                                  hash,
                                  100,
                                  line.number("keep", 2),
                                  line.option("best", "")};
}

// "JOB/RANK", of the first generation unless the line names another.
core::RankKey Script::Rank(const Line& line) const {
  const std::vector<std::string> parts = absl::StrSplit(line.word(1), '/');
  return {JobId(ToNumber(parts.at(0))), Generation(line.number("generation", 1)),
          ToNumber(parts.at(1))};
}

const core::Worker& Script::Named(const std::string& name) const {
  for (const core::Worker* worker : coordinator_.workers()) {
    if (worker->name == name) return *worker;
  }
  throw std::invalid_argument(absl::StrCat("worker ", name));
}

std::string Script::Describe(const core::Topic& topic) const {
  if (topic.kind != core::Topic::Kind::kAssignment) return DescribeTopic(topic);
  return absl::StrCat("assignment of ", coordinator_.worker(WorkerId(topic.id))->name);
}

Script::Lines Script::Show(const Line& line) const {
  const std::string& what = line.word(1);
  if (what == "events") {
    return DescribeEvents(coordinator_.state().events.After(0, JobId(line.number("job", 0)), 1000));
  }
  if (what == "job") return DescribeJob(*coordinator_.job(JobId(ToNumber(line.word(2)))));
  if (what == "world") return DescribeWorld(*coordinator_.world(JobId(ToNumber(line.word(2)))));
  if (what == "workers") return DescribeWorkers(coordinator_.workers());
  if (what == "assignment") {
    const core::Worker& worker = Named(line.word(2));
    return DescribeAssignment(*coordinator_.assignment(worker.id, worker.incarnation));
  }
  throw std::invalid_argument(what);
}

}  // namespace dp::scenarios
