#include "client/dpctl/worker_view.h"

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

std::string LabelsText(const v1::Worker& worker) {
  return absl::StrJoin(Sorted(worker), ",", absl::PairFormatter("="));
}

}  // namespace dp::ctl
