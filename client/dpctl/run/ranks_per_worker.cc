#include "client/dpctl/run/ranks_per_worker.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/labels.h"
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

bool SatisfiesAll(const v1::Worker& worker, const v1::JobSpec& spec) {
  const Labels labels(worker.labels().begin(), worker.labels().end());
  return absl::c_all_of(spec.constraints(), [&](const std::string& text) {
    const absl::StatusOr<LabelConstraint> constraint = ParseConstraint(text);
    return constraint.ok() && Satisfies(labels, *constraint);
  });
}

// The error that nprocPerNode: `unit` cannot be counted, and why.
absl::Status Uncounted(const client::JobFile& job, const std::string& unit, absl::string_view why) {
  const std::string path =
      absl::StrCat(job.spec.has_train() ? "train" : "command", ".nprocPerNode");
  return job.source.Error(path, absl::StrCat(path, " is ", unit, ", but ", why));
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

absl::Status CountRanks(Context& context, client::JobFile& job) {
  const std::string unit = Unit(job.spec);
  if (unit.empty()) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const v1::ListWorkersResponse response,
                      context.Call(&v1::Workers::Stub::List, {}));
  std::vector<int> counts;
  for (const v1::Worker& worker : response.workers()) {
    const int count = Count(unit, worker.slots(), std::min(worker.gpus(), worker.slots()));
    if (worker.state() == v1::WORKER_STATE_READY && count > 0 && SatisfiesAll(worker, job.spec))
      counts.push_back(count);
  }
  std::sort(counts.begin(), counts.end(), std::greater<>());
  DP_ASSIGN_OR_RETURN(const NodeRange nodes, ParseNodeRange(NodesField(job.spec)));
  const size_t wanted = nodes.min;
  if (counts.size() < wanted)
    return Uncounted(
        job, unit,
        absl::StrCat("the job needs ", wanted, wanted == 1 ? " worker" : " workers", ", and only ",
                     counts.size(), " of ", response.workers_size(),
                     counts.size() == 1 ? " is" : " are", " ready with a ",
                     unit == "gpu" ? "GPU" : "slot",
                     job.spec.constraints().empty() ? "" : " within the job's constraints",
                     " (see dpctl workers); start or undrain workers, ask for fewer, or give a "
                     "number"));
  SetRanks(counts[wanted - 1], job.spec);
  return absl::OkStatus();
}

absl::Status CountRanksHere(const Machine& machine, client::JobFile& job) {
  const std::string unit = Unit(job.spec);
  if (unit.empty()) return absl::OkStatus();
  const LocalGpus gpus = unit == "cpu" ? LocalGpus() : machine.gpus();
  const int count = Count(unit, machine.cpus, gpus.count);
  if (count == 0)
    return Uncounted(job, unit,
                     absl::StrCat("this machine has no GPU that ranks may use (", gpus.why_not,
                                  "); give a number, or cpu"));
  SetRanks(count, job.spec);
  return absl::OkStatus();
}

}  // namespace dp::ctl
