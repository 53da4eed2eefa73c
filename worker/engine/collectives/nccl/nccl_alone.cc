#include "worker/engine/collectives/nccl/nccl_alone.h"

#include <utility>

#include "worker/engine/collectives/ended_work.h"
#include "worker/engine/collectives/local/local_group.h"

namespace dp::engine {
namespace {

// A local group of one touches memory only where output and input differ. Here that is a copy
// between any two memories.
class NcclAlone : public Group {
 public:
  NcclAlone(NcclApi& api, const NcclOptions& options)
      : api_(api),
        compute_stream_(options.compute_stream),
        local_(std::move(MakeLocalGroups(1, options.group)[0])) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<Work> Start(Collective call) override {
    const bool exchanges = call.shape.kind == CallShape::Kind::kExchange;
    const absl::Span<const uint8_t> from = exchanges ? call.sent[0] : call.input;
    const absl::Span<uint8_t> to = exchanges ? call.received[0] : call.output;
    if (from.data() == to.data()) return local_->Start(std::move(call));
    const absl::Status before =
        local_->Broadcast(absl::Span<uint8_t>(), 0)->Wait();  // fails if aborted
    if (!before.ok()) return std::make_unique<EndedWork>(before);
    return std::make_unique<EndedWork>(
        api_.Copy(from.data(), from.size(), to.data(), compute_stream_));
  }
  std::unique_ptr<Work> Leave() override { return local_->Leave(); }
  void Abort(const absl::Status& why) override { local_->Abort(why); }

 private:
  NcclApi& api_;
  const NcclApi::Stream compute_stream_;
  const std::unique_ptr<Group> local_;
};

}  // namespace

std::unique_ptr<Group> MakeNcclAlone(NcclApi& api, const NcclOptions& options) {
  return std::make_unique<NcclAlone>(api, options);
}

}  // namespace dp::engine
