// cuDNN's backend API over notes, and the plans that are made from them (cuda_cudnn_on_host.h).

#include <cudnn.h>

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "worker/engine/device/cuda/testing/cuda_cudnn_notes_on_host.h"
#include "worker/engine/device/cuda/testing/cuda_on_host_memory.h"

namespace dp::engine::cuda::on_host {
namespace {

size_t BytesOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;  // floats and enumerations
  }
}

const Note& NoteOf(cudnnBackendDescriptor_t descriptor) {
  return *static_cast<const Note*>(descriptor);
}
Note& NoteOf(void* descriptor, std::nullptr_t) { return *static_cast<Note*>(descriptor); }

// Every graph has one engine, without knobs or numerical notes. A long graph, such as attention's
// backward, needs a larger workspace than the one that plans share, unless it adds atomically.
constexpr int64_t kLongGraph = 20;
constexpr int64_t kLargeWorkspaceBytes = int64_t{65} << 20;

// Whether the last operation converts the sums of an earlier one.
bool AddsAtomically(const std::vector<void*>& operations) {
  const Note& last = *static_cast<const Note*>(operations.back());
  if (last.type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) return false;
  return last.At(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
             .One<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_IDENTITY;
}

// An attribute of our own.
constexpr int kBuilt = -1;

// Answers queries about the descriptors that plans are made from.
cudnnStatus_t Answer(const Note& of, cudnnBackendAttributeName_t name, int64_t requested,
                     int64_t* count, void* values) {
  const auto number = [&](int64_t value) {
    *count = 1;
    std::memcpy(values, &value, sizeof(value));
  };
  *count = 0;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      *count = 1;
      if (requested > 0) {
        NoteOf(*static_cast<void**>(values), nullptr).attributes = of.attributes;
      }
      break;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      *count = 1;
      break;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      number(0);
      break;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: {
      const Note& graph =
          of.At(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).At(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      const auto operations = graph.All<void*>(CUDNN_ATTR_OPERATIONGRAPH_OPS);
      const bool is_long = operations.size() > kLongGraph && !AddsAtomically(operations);
      number(is_long ? kLargeWorkspaceBytes : 0);
      break;
    }
    default:
      break;  // none
  }
  return CUDNN_STATUS_SUCCESS;
}

// An engine's configuration makes one plan only, as with cuDNN 9.19, which says of the second that
// it cannot be compiled.
cudnnStatus_t Finalize(const Note& note) {
  if (note.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
  auto* const config = note.One<void*>(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const bool first = NoteOf(config, nullptr).attributes.insert({kBuilt, {}}).second;
  return first ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
}

// Memory is as for a GPU: tensors are on the device, in their own types, and scalars on the host.
cudnnStatus_t Execute(const Note& plan, const Note& pack) {
  const auto tensors = pack.All<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto addresses = pack.All<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (tensors.size() != addresses.size()) return CUDNN_STATUS_BAD_PARAM;
  std::map<int64_t, void*> given;
  for (size_t i = 0; i < tensors.size(); ++i) given[tensors[i]] = addresses[i];
  int64_t bytes = 0, count = 0;
  (void)Answer(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1, &count, &bytes);
  const auto workspace = pack.One<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (bytes > 0 && !IsDeviceMemory(workspace, bytes)) return CUDNN_STATUS_BAD_PARAM;
  ComputeNotes(
      plan.At(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).At(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH),
      std::move(given), /*of_own_types=*/true);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace dp::engine::cuda::on_host

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new dp::engine::cuda::on_host::Note{type, {}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<dp::engine::cuda::on_host::Note*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  const auto* const first = static_cast<const char*>(values);
  const size_t bytes = count * dp::engine::cuda::on_host::BytesOf(type);
  static_cast<dp::engine::cuda::on_host::Note*>(descriptor)->attributes[name] = {first,
                                                                                 first + bytes};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  using namespace dp::engine::cuda::on_host;  // NOLINT
  return Finalize(NoteOf(descriptor));
}
cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t requested,
                                       int64_t* count, void* values) {
  using namespace dp::engine::cuda::on_host;  // NOLINT: limited to this function
  return Answer(NoteOf(descriptor), name, requested, count, values);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  using namespace dp::engine::cuda::on_host;  // NOLINT
  return Execute(NoteOf(plan), NoteOf(pack));
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }
void cudnnGetLastErrorString(char* text, size_t) { *text = '\0'; }
size_t cudnnGetVersion() { return CUDNN_VERSION; }

}  // extern "C"
