#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/job_view.h"
#include "client/dpctl/view/table.h"
#include "client/dpctl/view/worker_view.h"
#include "dp/v1/workers.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

class Workers final : public Command {
 public:
  const char* name() const override { return "workers"; }
  const char* summary() const override { return "List the workers, their slots and jobs"; }
  const char* example() const override {
    return "dpctl workers\n  dpctl workers --gpus\n"
           "  dpctl workers -o json | jq '[.items[].freeSlots] | add'";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_flag("--gpus", gpus_, "List their GPUs instead, with memory, load and health");
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(v1::ListWorkersResponse response,
                        context.Call(&v1::Workers::Stub::List, {}));
    switch (context.flags().format) {
      case Format::kName:
        for (const v1::Worker& worker : response.workers()) context.out() << worker.name() << '\n';
        break;
      case Format::kJson:
        PrintJson(response, context.out());
        break;
      case Format::kTable:
        gpus_ ? PrintGpus(response, context) : PrintTable(response, context);
        break;
    }
    if (response.held_back() > 0)
      context.err() << "dpctl: " << response.held_back()
                    << " workers are silent, more than half of them: none is given up yet, as the "
                       "fault may be on the coordinator's side\n";
    if (response.insecure()) {
      context.err()
          << "dpctl: the coordinator runs with --insecure: whoever reaches its port may do "
             "everything\n";
    }
    return kSuccess;
  }

 private:
  static void PrintJson(const v1::ListWorkersResponse& response, std::ostream& out) {
    JsonWriter json(out);
    json.BeginObject();
    json.Key("items");
    json.BeginArray();
    for (const v1::Worker& worker : response.workers()) WriteWorker(worker, json);
    json.EndArray();
    json.EndObject();
  }

  static void PrintTable(const v1::ListWorkersResponse& response, Context& context) {
    Table table({"NAME", "STATE", "SLOTS", "FREE", "JOBS", "HOST", "ADDRESS", "SILENT", "LABELS",
                 "REASON"});
    for (const v1::Worker& worker : response.workers()) {
      table.Add({worker.name(), NameOf(worker.state()), absl::StrCat(worker.slots()),
                 absl::StrCat(worker.free_slots()), absl::StrJoin(worker.jobs(), ","),
                 worker.host(), worker.address(),
                 worker.has_silent_for() ? AgeText(FromProto(worker.silent_for())) : "",
                 LabelsText(worker), ReasonText(worker)});
    }
    table.Print(context.out(), !context.flags().no_headers);
  }

  static void PrintGpus(const v1::ListWorkersResponse& response, Context& context) {
    Table table({"WORKER", "SLOT", "GPU", "MODEL", "MEMORY", "USED", "BUSY", "TEMP", "HEALTH"});
    const auto text = [](bool known, int64_t value, const char* unit) {
      return known ? absl::StrCat(value, unit) : "";
    };
    for (const v1::Worker& worker : response.workers()) {
      if (worker.gpus() > 0 && worker.gpu_list().empty()) {
        table.Add({worker.name(), "", "", "", "", "", "", "", UnreadText(worker)});
      }
      for (const v1::Gpu& gpu : worker.gpu_list()) {
        table.Add({worker.name(), absl::StrCat(gpu.slot()), gpu.name(), gpu.model(),
                   text(gpu.has_memory_bytes(), gpu.memory_bytes() >> 20, " MiB"),
                   text(gpu.has_memory_used_bytes(), gpu.memory_used_bytes() >> 20, " MiB"),
                   text(gpu.has_utilisation_percent(), gpu.utilisation_percent(), "%"),
                   text(gpu.has_temperature_celsius(), gpu.temperature_celsius(), " C"),
                   HealthText(worker, gpu)});
      }
    }
    table.Print(context.out(), !context.flags().no_headers);
    const bool none = std::all_of(response.workers().begin(), response.workers().end(),
                                  [](const v1::Worker& worker) { return worker.gpus() == 0; });
    if (none) {
      context.err() << "dpctl: no worker has a GPU that ranks may use; 'dp-worker --list-gpus' on "
                       "its host says where it has looked\n";
    }
  }

  bool gpus_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeWorkers() { return std::make_unique<Workers>(); }

}  // namespace dp::ctl
