#include "tests/scenarios/describe.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/overloaded.h"

namespace dp::scenarios {
namespace {

// The parts that differ from the defaults; "-" if none does.
std::string DescribeResult(const StoreResult& result) {
  std::vector<std::string> parts;
  if (result.found) parts.push_back("found");
  if (!result.value.empty()) parts.push_back(absl::StrCat("'", result.value, "'"));
  if (result.number != 0) parts.push_back(absl::StrCat(result.number));
  if (!result.keys.empty()) parts.push_back(absl::StrJoin(result.keys, " "));
  if (result.version != 0) parts.push_back(absl::StrCat("at version ", result.version));
  return parts.empty() ? "-" : absl::StrJoin(parts, " ");
}

std::string DescribeRank(const core::Rank& rank, size_t number) {
  std::string line = absl::StrCat("rank ", number, " ", core::Name(rank.state), " on ", rank.worker,
                                  "/", rank.slot);
  if (rank.pid != 0) absl::StrAppend(&line, " pid ", rank.pid);
  if (rank.exit.has_value()) absl::StrAppend(&line, ", ", core::Describe(*rank.exit));
  return line;
}

absl::string_view Name(core::WorldState state) {
  switch (state) {
    case core::WorldState::kForming:
      return "forming";
    case core::WorldState::kSealed:
      return "sealed";
    case core::WorldState::kClosed:
      return "closed";
  }
  return "";
}

}  // namespace

std::string DescribeResults(const std::vector<StoreResult>& results) {
  return absl::StrJoin(results, "; ", [](std::string* out, const auto& result) {
    absl::StrAppend(out, DescribeResult(result));
  });
}

std::string DescribeReply(const core::Reply& reply) {
  return std::visit(
      Overloaded{[](std::monostate) -> std::string { return "ok"; },
                 [](JobId id) { return absl::StrCat("job ", id.ToString()); },
                 [](WorkerId id) { return absl::StrCat("worker ", id.ToString()); },
                 [](Epoch epoch) { return absl::StrCat("epoch ", epoch.ToString()); },
                 [](const std::vector<StoreResult>& results) { return DescribeResults(results); },
                 [](const core::GroupResults& groups) {
                   return absl::StrCat(DescribeResults(groups.results), ", ", groups.refused.size(),
                                       " groups refused");
                 },
                 [](const std::string& name) { return absl::StrCat("name ", name); },
                 [](bool on_record) -> std::string { return on_record ? "known" : "unknown"; }},
      reply);
}

std::string DescribeTopic(const core::Topic& topic) {
  switch (topic.kind) {
    case core::Topic::Kind::kJob:
      return absl::StrCat("job ", topic.id);
    case core::Topic::Kind::kJobList:
      return "jobs";
    case core::Topic::Kind::kWorld:
      return absl::StrCat("world ", topic.id);
    case core::Topic::Kind::kAssignment:
      return absl::StrCat("assignment ", topic.id);
    case core::Topic::Kind::kWorkers:
      return "workers";
    case core::Topic::Kind::kStoreKey:
      return absl::StrCat("key ", topic.id, "/", topic.key);
    case core::Topic::Kind::kStoreElement:
      return absl::StrCat("element ", topic.id, "/", topic.key);
    case core::Topic::Kind::kStoreTaken:
      return absl::StrCat("taken ", topic.id, "/", topic.key);
    case core::Topic::Kind::kLogs:
      return absl::StrCat("logs ", topic.id);
    case core::Topic::Kind::kEvents:
      return "events";
    case core::Topic::Kind::kWorldState:
      return absl::StrCat("world-state ", topic.id);
    case core::Topic::Kind::kAccess:
      return "access";
  }
  return "";
}

std::string DescribePlaces(const core::Job& job) {
  return absl::StrCat("job ", job.id.ToString(), " on ",
                      absl::StrJoin(job.ranks, " ",
                                    [](std::string* out, const core::Rank& rank) {
                                      absl::StrAppend(out, rank.worker, "/", rank.slot);
                                    }),
                      job.store_port == 0 ? "" : absl::StrCat(", store port ", job.store_port));
}

std::string DescribeVerdict(const core::Action& verdict, absl::Time now) {
  if (const auto* finish = std::get_if<core::FinishJob>(&verdict)) {
    return absl::StrCat("job ", finish->job.ToString(), " ends: ", finish->reason);
  }
  const auto& retry = std::get<core::RetryJob>(verdict);
  return absl::StrCat(
      "job ", retry.job.ToString(), " restarts in ", absl::FormatDuration(retry.not_before - now),
      ", counted as ",
      retry.counted_as.has_value() ? std::string(core::Name(*retry.counted_as)) : "nothing");
}

std::vector<std::string> DescribeJob(const core::Job& job) {
  std::vector<std::string> lines = {absl::StrCat(core::Name(job.state), ", generation ",
                                                 job.generation.ToString(), ", version ",
                                                 job.version.ToString())};
  for (size_t i = 0; i < job.ranks.size(); ++i) lines.push_back(DescribeRank(job.ranks[i], i));
  for (const core::Checkpoint& one : job.checkpoints.all()) {
    lines.push_back(absl::StrCat("checkpoint of step ", one.step, ", generation ",
                                 one.generation.ToString(), ", at ", one.path));
  }
  if (const core::Checkpoint* best = job.checkpoints.best()) {
    lines.push_back(absl::StrCat("best checkpoint of step ", best->step, ": ", best->best));
  }
  if (!job.stopped_early.empty()) lines.push_back("stopped early: " + job.stopped_early);
  if (job.weights) lines.push_back(absl::StrCat("weights at ", job.weights->path));
  for (const core::PastFailure& past : job.past) {
    lines.push_back(absl::StrCat("generation ", past.failure.generation.ToString(), " (",
                                 core::Name(past.failure.failure_class),
                                 "): ", past.failure.message));
  }
  if (!job.failure.has_value()) return lines;
  lines.push_back(absl::StrCat("failure (", core::Name(job.failure->failure_class),
                               "): ", job.failure->message));
  for (const std::string& line : job.failure->last_lines) {
    lines.push_back(absl::StrCat("| ", line));
  }
  if (!job.not_restarted.empty()) {
    lines.push_back(absl::StrCat("not restarted: ", job.not_restarted));
  }
  return lines;
}

std::vector<std::string> DescribeWorld(const core::World& world) {
  std::vector<std::string> lines = {absl::StrCat(Name(world.state), ", generation ",
                                                 world.generation.ToString(), ", size ", world.size,
                                                 ", version ", world.version.ToString())};
  for (const core::Member& member : world.members) {
    lines.push_back(
        absl::StrCat("rank ", member.rank, " on ", member.worker, " at ", member.address));
  }
  if (!world.reason.empty()) lines.push_back(world.reason);
  if (!world.handover.empty()) lines.push_back(absl::StrCat("to hand over: ", world.handover));
  return lines;
}

std::vector<std::string> DescribeEvents(const std::vector<const core::Event*>& events) {
  std::vector<std::string> lines;
  for (const core::Event* event : events) {
    const std::string about = event->job.valid() ? absl::StrCat("job ", event->job.ToString())
                                                 : absl::StrCat("worker ", event->worker);
    lines.push_back(absl::StrCat(event->number, " ", about, " ", event->kind,
                                 event->text.empty() ? "" : ": ", event->text));
  }
  return lines;
}

std::vector<std::string> DescribeWorkers(const std::vector<const core::Worker*>& workers) {
  std::vector<std::string> lines;
  for (const core::Worker* worker : workers) {
    lines.push_back(absl::StrCat(worker->name, " life ", worker->incarnation.ToString(), ": "));
    if (worker->ready()) {
      absl::StrAppend(&lines.back(), worker->free_slots().size(), " of ", worker->slots.size(),
                      " slots free");
      if (worker->leaving) absl::StrAppend(&lines.back(), ", leaving");
      for (const auto& [slot, reason] : worker->unhealthy) {
        absl::StrAppend(&lines.back(), ", slot ", slot, " unhealthy: ", reason);
      }
      if (worker->drain) absl::StrAppend(&lines.back(), ", drained: ", worker->drain->reason);
    } else {
      absl::StrAppend(&lines.back(), "lost, ", worker->lost_reason);
    }
  }
  return lines;
}

std::vector<std::string> DescribeAssignment(const core::Assignment& assignment) {
  std::vector<std::string> lines = {absl::StrCat("version ", assignment.version.ToString())};
  for (const core::AssignedRank& rank : assignment.ranks) {
    lines.push_back(absl::StrCat(
        "job ", rank.key.job.ToString(), " rank ", rank.key.rank, " of ", rank.world_size,
        ", local rank ", rank.local_rank, ", slot ", rank.slot, rank.stop ? ", stop" : "",
        rank.hand_over ? ", hand over" : "", rank.on_gpu ? ", on its GPU" : "",
        rank.store_port == 0 ? "" : absl::StrCat(", store port ", rank.store_port)));
    for (const core::HostRanks& host : rank.hosts) {
      lines.push_back(absl::StrCat("  on ", host.address, ": slots ",
                                   absl::StrJoin(host.slots, " "), ", ports ",
                                   absl::StrJoin(host.ports, " ")));
    }
  }
  return lines;
}

}  // namespace dp::scenarios
