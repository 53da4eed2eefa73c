#pragma once

#include <map>
#include <string>

#include "base/id.h"
#include "dp/v1/workers.pb.h"
#include "google/protobuf/repeated_field.h"
#include "server/driver/driver.h"
#include "server/driver/latest_news.h"

namespace dp::server {

// The GPUs that each daemon last reported. The table is for display and never for decisions, so no
// journal holds it: a restarted coordinator gets new reports, with the registrations.
//
// Report may be called on any thread, the other methods on the driver's.
class GpuTable {
 public:
  using Gpus = google::protobuf::RepeatedPtrField<v1::Gpu>;

  // Takes the GPUs reported with a registration. Keeps bounded parts of them.
  void Register(WorkerId worker, const v1::RegisterRequest& request, const View& view);
  // Takes the GPUs reported with a heartbeat that renewed the lease; empty: no change. Keeps
  // bounded parts of them.
  void Report(WorkerId worker, Incarnation incarnation, const Gpus& gpus);
  // Shows nothing if the worker is lost, or if another incarnation than its current one reported
  // the GPUs.
  void Show(const core::Worker& worker, const View& view, v1::Worker* proto);

 private:
  struct Told {
    Incarnation by;
    Gpus gpus;
    std::string no_trainer;
  };
  Told& ToldBy(WorkerId worker, Incarnation incarnation, const View& view);
  // Takes in the reports, except those of incarnations that have ended.
  void TakeNews(const View& view);

  LatestNews<Gpus> news_;
  std::map<WorkerId, Told> told_;
};

}  // namespace dp::server
