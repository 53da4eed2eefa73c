#include "tests/scenarios/line_values.h"

#include <stdexcept>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dp::scenarios {
namespace {

core::RestartLimits LimitsOf(const Line& line) {
  core::RestartLimits limits;
  limits.user = line.number("user", limits.user);
  limits.infra = line.number("infra", limits.infra);
  limits.hang = line.number("hang", limits.hang);
  if (line.options.contains("oom")) limits.oom = line.number("oom", 0);
  limits.startup = line.number("startup", limits.startup);
  if (line.options.contains("never")) limits.never_exit_codes = {line.number("never", 0)};
  if (line.options.contains("always")) limits.always_exit_codes = {line.number("always", 0)};
  return limits;
}

}  // namespace

int ToNumber(absl::string_view text) {
  int number = 0;
  if (!absl::SimpleAtoi(text, &number)) throw std::invalid_argument(absl::StrCat("number ", text));
  return number;
}

absl::Duration ToDuration(const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration)) throw std::invalid_argument(text);
  return duration;
}

core::Exit ExitOf(const Line& line) {
  if (line.options.count("signal") > 0) {
    return {core::Exit::How::kSignal, line.number("signal", 0)};
  }
  return {core::Exit::How::kCode, line.number("code", 0)};
}

std::vector<int> PortsOf(const Line& line) {
  std::vector<int> ports;
  const int first = line.number("ports", 0);
  for (int i = 0; first > 0 && i < line.number("slots", 1); ++i) ports.push_back(first + i);
  return ports;
}

core::JobSpec SpecOf(const Line& line) {
  core::Scheduling scheduling{.queue = line.option("queue", "default"),
                              .priority = line.number("priority", 0),
                              .hold = line.option("hold", "no") == "yes",
                              .singleton = line.option("singleton", "no") == "yes",
                              .max_duration = ToDuration(line.option("max", "inf")),
                              .ttl_after_finish = ToDuration(line.option("ttl", "inf")),
                              .preemptible = line.option("preemptible", "no") == "yes",
                              .grow_after = ToDuration(line.option("grow", "inf"))};
  const std::string slots = line.option("slots", "any");
  scheduling.slots = slots == "gpu"            ? core::SlotKind::kGpu
                     : slots == "cpu"          ? core::SlotKind::kCpu
                     : slots == "training-gpu" ? core::SlotKind::kTrainingGpu
                                               : core::SlotKind::kAny;
  const std::string after = line.option("after", ""), asks = line.option("constraints", "");
  for (const auto each : absl::StrSplit(after, ',', absl::SkipEmpty())) {
    scheduling.after.push_back(*ParseDependency(each));
  }
  for (const auto each : absl::StrSplit(asks, ',', absl::SkipEmpty())) {
    scheduling.constraints.push_back(*ParseConstraint(each));
  }
  core::JobSpec spec{.name = line.option("name", "job"),
                     .ranks = line.number("ranks", 1),
                     .store_port = line.option("endpoint", "no") == "yes",
                     .nodes = line.number("nodes", 0),
                     .joins_by_running = line.option("joins", "by-call") == "by-running",
                     .nodes_max = line.number("nodes-max", 0),
                     .scheduling = std::move(scheduling)};
  spec.saves = line.option("saves", "no") == "yes";
  spec.gpu_training = line.option("trains", "") == "on-gpus";
  spec.grace = ToDuration(line.option("grace", "10s"));
  if (line.option("restart", "no") == "yes") spec.restart = LimitsOf(line);
  return spec;
}

StoreOperation Operation(const Line& line) {
  const std::string& verb = line.word(2);
  const std::string& key = line.word(3);
  if (verb == "set") return StoreSet{key, line.word(4)};
  if (verb == "get") return StoreGet{key};
  if (verb == "add") return StoreAdd{key, ToNumber(line.word(4))};
  if (verb == "compare_set") return StoreCompareSet{key, line.word(4), line.word(5)};
  if (verb == "delete") return StoreDelete{key};
  if (verb == "append") return StoreAppend{key, line.word(4)};
  if (verb == "push") return StoreQueuePush{key, line.word(4)};
  if (verb == "pop") return StoreQueuePop{key};
  if (verb == "length") return StoreQueueLength{key};
  if (verb == "list") return StoreList{key == "*" ? "" : key};
  if (verb == "reached") return StoreReached{key, ToNumber(line.word(4))};
  if (verb == "newer") return StoreNewer{key, static_cast<uint64_t>(ToNumber(line.word(4)))};
  if (verb == "check") return StoreCheck{{line.words.begin() + 3, line.words.end()}};
  throw std::invalid_argument(verb);
}

}  // namespace dp::scenarios
