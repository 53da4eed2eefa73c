#pragma once

#include <map>
#include <string>

#include "base/id.h"
#include "dp/v1/workers.pb.h"
#include "google/protobuf/repeated_field.h"
#include "server/shell/driver.h"

namespace dp::server {

// What daemons told last of their GPUs. It is shown and never decided upon, so it is in no journal:
// a coordinator that was restarted hears it anew, with the registrations. Used on the driver's
// thread only.
class GpuTable {
 public:
  using Gpus = google::protobuf::RepeatedPtrField<v1::Gpu>;

  // Told with its registration. Keeps bounded parts of it.
  void Register(WorkerId worker, const v1::RegisterRequest& request, const View& view);
  // Told with a call that the worker was entitled to; none: as before. Keeps bounded parts of it.
  void Take(WorkerId worker, Incarnation incarnation, const Gpus& gpus, const View& view);
  // Nothing where it was told by another life than the current one, or that one is lost.
  void Show(const core::Worker& worker, v1::Worker* proto) const;

 private:
  struct Told {
    Incarnation by;
    Gpus gpus;
    std::string no_trainer;
  };
  Told& ToldBy(WorkerId worker, Incarnation incarnation, const View& view);

  std::map<WorkerId, Told> told_;
};

}  // namespace dp::server
