#pragma once

#include <map>
#include <string>

#include "base/id.h"
#include "dp/v1/workers.pb.h"
#include "google/protobuf/repeated_field.h"
#include "server/shell/driver.h"
#include "server/shell/latest_news.h"

namespace dp::server {

// The GPUs that each daemon has reported last. They are shown and never decided upon, so they are
// in no journal: a coordinator that was restarted hears of them anew, with the registrations.
//
// Report is for any thread, the other methods for the driver's.
class GpuTable {
 public:
  using Gpus = google::protobuf::RepeatedPtrField<v1::Gpu>;

  // Reported with its registration. Keeps bounded parts of it.
  void Register(WorkerId worker, const v1::RegisterRequest& request, const View& view);
  // Reported with a heartbeat that renewed a lease; none: as before. Keeps bounded parts of it.
  void Report(WorkerId worker, Incarnation incarnation, const Gpus& gpus);
  // Nothing where another life than the current one has reported it, or the current one is lost.
  void Show(const core::Worker& worker, const View& view, v1::Worker* proto);

 private:
  struct Told {
    Incarnation by;
    Gpus gpus;
    std::string no_trainer;
  };
  Told& ToldBy(WorkerId worker, Incarnation incarnation, const View& view);
  // Takes what Report has brought, unless its life is over.
  void TakeNews(const View& view);

  LatestNews<Gpus> news_;
  std::map<WorkerId, Told> told_;
};

}  // namespace dp::server
