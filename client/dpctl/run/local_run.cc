#include "client/dpctl/run/local_run.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/limits.h"
#include "base/node_range.h"
#include "base/random.h"
#include "base/status.h"
#include "client/dpctl/run/local_gpus.h"
#include "client/dpctl/run/torchrun_flags.h"
#include "dp/v1/workers.grpc.pb.h"
#include "proto/convert/time.h"
#include "proto/job/job_spec.h"

namespace dp::ctl {
namespace {

// The first job of every local coordinator is job 1, so its number does not distinguish runs.
void NameRun(v1::JobSpec& spec) {
  if (!MeetsAtStore(spec.command())) return;
  auto& id = (*spec.mutable_env())["TORCHELASTIC_RUN_ID"];
  if (id.empty()) id = absl::StrFormat("dp-local-%016x", EntropySeed());
}

}  // namespace

void LocalRun::DefineFlags(CLI::App& app) {
  app.add_flag("--local,--standalone", on_,
               "Run on a coordinator and workers that dpctl starts here; also by PET_STANDALONE=1");
  app.add_option("--workers", workers_,
                 "How many workers --local starts; by default as many as the job names, or one")
      ->check(CLI::Range(1, 64));
  app.add_option("--slots", slots_, "Slots of each of them; by default as many as are needed")
      ->check(CLI::Range(1, kSlotsMax));
}

bool LocalRun::on() const { return on_ || VariableSwitch("standalone").value_or(false); }

absl::Status LocalRun::Check() const {
  DP_RETURN_IF_ERROR(VariableSwitch("standalone").status());
  for (const auto& [flag, number] :
       {std::pair("--workers", workers_), std::pair("--slots", slots_)})
    if (number > 0 && !on())
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " ", number,
                       " is of the workers that --local starts; give --local, or leave it out"));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalRun::Start(v1::JobSpec& spec,
                                                              Context& context) const {
  const auto range = ParseNodeRange(NodesField(spec));
  const int nodes = range.ok() ? range->min : 1;
  const int workers = workers_ > 0 ? workers_ : nodes;
  const int sharers = range.ok() ? nodes : workers;
  const int needed = (spec.ranks() + sharers - 1) / sharers;
  const int slots = slots_ > 0 ? slots_ : needed;
  if (workers < sharers)
    return absl::InvalidArgumentError(
        absl::StrCat("--workers ", workers, " is too few for a job of ", nodes,
                     " nodes, which would wait for ever; leave it out, or give ", nodes));
  if (slots < needed)
    return absl::InvalidArgumentError(
        absl::StrCat("--slots ", slots, " is too few for ", spec.ranks(), " ranks on ", sharers,
                     sharers == 1 ? " worker" : " workers",
                     ", which would wait for ever; leave it out, or give ", needed));
  DP_RETURN_IF_ERROR(CheckLocalGpus(context.surroundings().machine, spec, workers));
  NameRun(spec);
  return context.surroundings().start_local(
      {.workers = workers,
       .slots = slots,
       .serves_stores = spec.command().store() == "direct",
       .grace = FromProto(spec.grace()),
       .stop = context.surroundings().interrupts.descriptor(),
       .note = [&err = context.err()](const std::string& note) {
         err << "dpctl: " << note << std::endl;
       }});
}

absl::Status LocalRun::CheckStarted(const v1::JobSpec& spec, Context& context) {
  if (!TrainsOnGpus(spec)) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const v1::ListWorkersResponse workers,
                      context.Call(&v1::Workers::Stub::List, {}));
  return CheckLocalTrainer(workers);
}

}  // namespace dp::ctl
