// The rotation of queries and keys before attention.

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/device/cuda/attention/cuda_rotary.h"
#include "worker/engine/device/cuda/network/cuda_network_operation.h"
#include "worker/engine/device/cuda/network/cuda_network_shapes.h"
#include "worker/engine/nn/rotary_angles.h"

namespace dp::engine::cuda {
namespace {

// The cosines of all angles, then their sines, which all layers of a shape share.
absl::StatusOr<std::shared_ptr<DeviceBuffer>> TableOf(OperationParts& parts,
                                                      const HeadsSize& size) {
  std::shared_ptr<DeviceBuffer>& table =
      parts.rotations[absl::StrCat(size.tokens, "x", size.head_features)];
  if (table != nullptr) return table;
  const RotaryAngles angles(size.tokens, size.head_features);
  const size_t bytes = angles.cosines.size() * sizeof(float);
  DP_ASSIGN_OR_RETURN(DeviceBuffer buffer, DeviceBuffer::Allocate(static_cast<int64_t>(2 * bytes)));
  float* const place = buffer.as<float>();
  // Copies from pageable memory, which is read before this returns.
  DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(place, angles.cosines.data(), bytes,
                                          cudaMemcpyHostToDevice, parts.planning.stream));
  DP_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(place + angles.sines.size(), angles.sines.data(), bytes,
                                          cudaMemcpyHostToDevice, parts.planning.stream));
  DP_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(parts.planning.stream));
  table = std::make_shared<DeviceBuffer>(std::move(buffer));
  return table;
}

}  // namespace

template <typename T>
MadeOperation OperationMaker<T>::operator()(const op::Rotate& o) const {
  DP_ASSIGN_OR_RETURN(std::shared_ptr<DeviceBuffer> table, TableOf(parts, o.size));
  return MakeLaunch([table = std::move(table), shape = ShapeOf(o.size), in = array<T>(o.in),
                     backwards = o.backwards, out = array<T>(o.out)](cudaStream_t stream) {
    return Rotate<T>(stream, in, table->as<float>(), shape, backwards, out);
  });
}

template MadeOperation OperationMaker<float>::operator()(const op::Rotate&) const;
template MadeOperation OperationMaker<bf16>::operator()(const op::Rotate&) const;

}  // namespace dp::engine::cuda
