#include "client/dpctl/run/ranks_per_worker.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/node_range.h"
#include "base/status.h"
#include "dp/v1/workers.grpc.pb.h"
#include "proto/job/job_spec.h"

namespace dp::ctl {
namespace {

// gpu, cpu or auto; empty if there is nothing to count.
std::string Unit(const v1::JobSpec& spec) {
  const std::string& each = RanksPerNodeField(spec);
  int number = 0;
  return each.empty() || absl::SimpleAtoi(each, &number) ? "" : each;
}

int Count(const std::string& unit, int cpus, int gpus) {
  if (unit == "gpu" || (unit == "auto" && gpus > 0)) return gpus;
  return cpus;
}

void SetRanks(int each, v1::JobSpec& spec) {
  std::string text = absl::StrCat(each);
  spec.has_train() ? spec.mutable_train()->set_nproc_per_node(std::move(text))
                   : spec.mutable_command()->set_nproc_per_node(std::move(text));
  const auto ranks = RanksOf(spec);
  spec.set_ranks(ranks ? ranks->min : each);
}

}  // namespace

absl::Status CountRanks(Context& context, v1::JobSpec& spec) {
  const std::string unit = Unit(spec);
  if (unit.empty()) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const v1::ListWorkersResponse response,
                      context.Call(&v1::Workers::Stub::List, {}));
  std::vector<int> counts;
  for (const v1::Worker& worker : response.workers()) {
    if (worker.state() != v1::WORKER_STATE_READY) continue;
    counts.push_back(Count(unit, worker.slots(), std::min(worker.gpus(), worker.slots())));
  }
  std::sort(counts.begin(), counts.end(), std::greater<>());
  DP_ASSIGN_OR_RETURN(const NodeRange nodes, ParseNodeRange(NodesField(spec)));
  const size_t wanted = nodes.min;
  if (counts.size() < wanted || counts[wanted - 1] == 0)
    return absl::InvalidArgumentError(absl::StrCat(
        "--nproc-per-node ", unit, " counts what ", wanted,
        wanted == 1 ? " worker has" : " workers have", ", but there are ",
        std::count_if(counts.begin(), counts.end(), [](int count) { return count > 0; }),
        unit == "gpu" ? " with a GPU" : "", "; give a number"));
  SetRanks(counts[wanted - 1], spec);
  return absl::OkStatus();
}

absl::Status CountRanksHere(const Machine& machine, v1::JobSpec& spec) {
  const std::string unit = Unit(spec);
  if (unit.empty()) return absl::OkStatus();
  const LocalGpus gpus = unit == "cpu" ? LocalGpus() : machine.gpus();
  const int count = Count(unit, machine.cpus, gpus.count);
  if (count == 0)
    return absl::InvalidArgumentError(absl::StrCat("--nproc-per-node ", unit,
                                                   ": this machine has no GPU that ranks may use (",
                                                   gpus.why_not, "); give a number, or cpu"));
  SetRanks(count, spec);
  return absl::OkStatus();
}

}  // namespace dp::ctl
