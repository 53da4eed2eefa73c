#include "worker/engine/collectives/nccl/nccl_alone.h"

#include <utility>

#include "base/check.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/collectives/nccl/ended_work.h"

namespace dp::engine {
namespace {

// A local group of one touches memory only in AllGather, which copies between any two memories
// here.
class NcclAlone : public Group {
 public:
  NcclAlone(NcclApi& api, const NcclOptions& options)
      : api_(api),
        compute_stream_(options.compute_stream),
        local_(std::move(MakeLocalGroups(1, options.group)[0])) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<Work> AllReduce(absl::Span<float> data, ReduceOp op) override {
    return local_->AllReduce(data, op);
  }
  std::unique_ptr<Work> Broadcast(absl::Span<uint8_t> data, int root) override {
    return local_->Broadcast(data, root);
  }
  std::unique_ptr<Work> AllGather(absl::Span<const uint8_t> data,
                                  absl::Span<uint8_t> gathered) override {
    DP_CHECK(gathered.size() == data.size());
    const absl::Status before = local_->AllReduce({}, ReduceOp::kSum)->Wait();  // fails if aborted
    if (!before.ok()) return std::make_unique<EndedWork>(before);
    return std::make_unique<EndedWork>(
        api_.Copy(data.data(), data.size(), gathered.data(), compute_stream_));
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
