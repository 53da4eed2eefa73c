#include "client/dpctl/view/worker_view.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/dpctl/job_state.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

std::map<std::string, std::string> Sorted(const v1::Worker& worker) {
  return {worker.labels().begin(), worker.labels().end()};
}

void WriteGpu(const v1::Gpu& gpu, JsonWriter& json) {
  const auto field = [&json](const char* key, bool known, int64_t value) {
    known ? json.Field(key, value) : json.NullField(key);
  };
  json.BeginObject();
  json.Field("name", gpu.name());
  json.Field("slot", gpu.slot());
  json.TextOrNull("model", gpu.model());
  field("memoryBytes", gpu.has_memory_bytes(), gpu.memory_bytes());
  field("memoryUsedBytes", gpu.has_memory_used_bytes(), gpu.memory_used_bytes());
  field("utilisationPercent", gpu.has_utilisation_percent(), gpu.utilisation_percent());
  field("temperatureCelsius", gpu.has_temperature_celsius(), gpu.temperature_celsius());
  json.Key("slowedBy");
  json.BeginArray();
  for (const std::string& name : gpu.slowed_by()) json.String(name);
  json.EndArray();
  field("uncorrectedErrors", gpu.has_uncorrected_errors(), gpu.uncorrected_errors());
  json.Key("repairPending");
  gpu.has_repair_pending() ? json.Bool(gpu.repair_pending()) : json.Null();
  field("xid", gpu.has_xid(), gpu.xid());
  json.Field("healthy", gpu.unfit().empty());
  json.TextOrNull("unfit", gpu.unfit());
  json.TextOrNull("readBy", gpu.read_by());
  json.EndObject();
}

std::string NoTrainerText(const v1::Worker& worker) {
  if (worker.no_gpu_trainer().empty()) return "";
  return absl::StrCat("; no trainer uses it: ", worker.no_gpu_trainer());
}

}  // namespace

void WriteWorker(const v1::Worker& worker, JsonWriter& json) {
  json.BeginObject();
  json.Field("id", worker.id());
  json.Field("name", worker.name());
  json.Field("host", worker.host());
  json.Field("address", worker.address());
  json.Field("state", NameOf(worker.state()));
  json.Field("slots", worker.slots());
  json.Field("freeSlots", worker.free_slots());
  json.Key("jobs");
  json.BeginArray();
  for (const uint64_t job : worker.jobs()) json.UInt(job);
  json.EndArray();
  json.Key("silentForMs");
  worker.has_silent_for() ? json.Int(absl::ToInt64Milliseconds(FromProto(worker.silent_for())))
                          : json.Null();
  json.Field("gpus", worker.gpus());
  json.Field("trainsOnGpus", worker.trains_on_gpus());
  json.TextOrNull("noGpuTrainer", worker.no_gpu_trainer());
  json.Key("labels");
  json.BeginObject();
  for (const auto& [key, value] : Sorted(worker)) json.Field(key, value);
  json.EndObject();
  json.Key("unhealthySlots");
  json.BeginArray();
  for (const v1::UnhealthySlot& slot : worker.unhealthy_slots()) {
    json.BeginObject();
    json.Field("slot", slot.slot());
    json.Field("reason", slot.reason());
    json.EndObject();
  }
  json.EndArray();
  json.Key("gpuList");
  json.BeginArray();
  for (const v1::Gpu& gpu : worker.gpu_list()) WriteGpu(gpu, json);
  json.EndArray();
  json.Key("processTracking");
  worker.process_tracking().empty() ? json.Null() : json.String(worker.process_tracking());
  json.Field("drained", worker.drained());
  json.Key("reason");
  worker.reason().empty() ? json.Null() : json.String(worker.reason());
  json.EndObject();
}

std::string ReasonText(const v1::Worker& worker) {
  std::vector<std::string> reasons;
  if (!worker.reason().empty()) reasons.push_back(worker.reason());
  for (const v1::UnhealthySlot& slot : worker.unhealthy_slots()) {
    reasons.push_back(absl::StrCat("slot ", slot.slot(), ": ", slot.reason()));
  }
  return absl::StrJoin(reasons, "; ");
}

std::string UnreadText(const v1::Worker& worker) {
  return absl::StrCat("not read yet", NoTrainerText(worker));
}

std::string HealthText(const v1::Worker& worker, const v1::Gpu& gpu) {
  if (!gpu.unfit().empty()) return gpu.unfit();
  std::vector<std::string> words = {"healthy"};
  if (gpu.xid() != 0) words.push_back(absl::StrCat("last Xid ", gpu.xid()));
  if (gpu.uncorrected_errors() > 0) {
    words.push_back(absl::StrCat(gpu.uncorrected_errors(), " uncorrected memory errors"));
  }
  if (gpu.repair_pending()) words.push_back("its next reset repairs its memory");
  if (gpu.slowed_by_size() > 0) {
    words.push_back(absl::StrCat("slowed by ", absl::StrJoin(gpu.slowed_by(), " and ")));
  }
  return absl::StrCat(absl::StrJoin(words, ", "), NoTrainerText(worker));
}

std::string LabelsText(const v1::Worker& worker) {
  // As constraints are written: the key alone if there is no value.
  return absl::StrJoin(Sorted(worker), ",", [](std::string* text, const auto& label) {
    absl::StrAppend(text, label.first, label.second.empty() ? "" : "=", label.second);
  });
}

}  // namespace dp::ctl
