#include <nccl.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/engine/collectives/cuda/cuda_library.h"
#include "worker/engine/collectives/nccl/nccl_api.h"

// The real NCCL. Compiling needs its headers; only LoadNccl needs its libraries.

namespace dp::engine {
namespace {

// The entry points of NCCL, and those of CUDA for streams and events.
struct NcclEntries {
#define DP_NCCL_ENTRY(name) decltype(&::name) name = nullptr
  DP_NCCL_ENTRY(ncclGetVersion);
  DP_NCCL_ENTRY(ncclGetUniqueId);
  DP_NCCL_ENTRY(ncclCommInitRankConfig);
  DP_NCCL_ENTRY(ncclCommInitRankScalable);  // null before 2.23
  DP_NCCL_ENTRY(ncclCommGetAsyncError);
  DP_NCCL_ENTRY(ncclCommFinalize);
  DP_NCCL_ENTRY(ncclCommDestroy);
  DP_NCCL_ENTRY(ncclCommAbort);
  DP_NCCL_ENTRY(ncclAllReduce);
  DP_NCCL_ENTRY(ncclBroadcast);
  DP_NCCL_ENTRY(ncclAllGather);
  DP_NCCL_ENTRY(ncclReduce);
  DP_NCCL_ENTRY(ncclReduceScatter);
  DP_NCCL_ENTRY(ncclSend);
  DP_NCCL_ENTRY(ncclRecv);
  DP_NCCL_ENTRY(ncclGroupStart);
  DP_NCCL_ENTRY(ncclGroupEnd);
  DP_NCCL_ENTRY(ncclGetErrorString);
  DP_NCCL_ENTRY(ncclGetLastError);
  DP_NCCL_ENTRY(cudaDeviceGetPCIBusId);
  DP_NCCL_ENTRY(cudaDeviceGetStreamPriorityRange);
  DP_NCCL_ENTRY(cudaStreamDestroy);
  DP_NCCL_ENTRY(cudaEventQuery);
  DP_NCCL_ENTRY(cudaEventDestroy);
#undef DP_NCCL_ENTRY
  // The header overloads these, so their types are written out.
  cudaError_t (*cudaStreamCreateWithPriority)(cudaStream_t*, unsigned, int) = nullptr;
  cudaError_t (*cudaEventCreateWithFlags)(cudaEvent_t*, unsigned) = nullptr;
  cudaError_t (*cudaEventRecord)(cudaEvent_t, cudaStream_t) = nullptr;
  cudaError_t (*cudaStreamWaitEvent)(cudaStream_t, cudaEvent_t, unsigned) = nullptr;
};

absl::StatusOr<NcclEntries> FindNcclEntries(void* nccl, void* cuda) {
  NcclEntries e;
  absl::Status status;
#define DP_NCCL_FIND(library, name) status.Update(FindEntry(library, #name, &e.name))
  DP_NCCL_FIND(nccl, ncclGetVersion);
  DP_NCCL_FIND(nccl, ncclGetUniqueId);
  DP_NCCL_FIND(nccl, ncclCommInitRankConfig);
  (void)FindEntry(nccl, "ncclCommInitRankScalable", &e.ncclCommInitRankScalable);  // may be absent
  DP_NCCL_FIND(nccl, ncclCommGetAsyncError);
  DP_NCCL_FIND(nccl, ncclCommFinalize);
  DP_NCCL_FIND(nccl, ncclCommDestroy);
  DP_NCCL_FIND(nccl, ncclCommAbort);
  DP_NCCL_FIND(nccl, ncclAllReduce);
  DP_NCCL_FIND(nccl, ncclBroadcast);
  DP_NCCL_FIND(nccl, ncclAllGather);
  DP_NCCL_FIND(nccl, ncclReduce);
  DP_NCCL_FIND(nccl, ncclReduceScatter);
  DP_NCCL_FIND(nccl, ncclSend);
  DP_NCCL_FIND(nccl, ncclRecv);
  DP_NCCL_FIND(nccl, ncclGroupStart);
  DP_NCCL_FIND(nccl, ncclGroupEnd);
  DP_NCCL_FIND(nccl, ncclGetErrorString);
  DP_NCCL_FIND(nccl, ncclGetLastError);
  DP_NCCL_FIND(cuda, cudaDeviceGetPCIBusId);
  DP_NCCL_FIND(cuda, cudaDeviceGetStreamPriorityRange);
  DP_NCCL_FIND(cuda, cudaStreamDestroy);
  DP_NCCL_FIND(cuda, cudaEventQuery);
  DP_NCCL_FIND(cuda, cudaEventDestroy);
  DP_NCCL_FIND(cuda, cudaStreamCreateWithPriority);
  DP_NCCL_FIND(cuda, cudaEventCreateWithFlags);
  DP_NCCL_FIND(cuda, cudaEventRecord);
  DP_NCCL_FIND(cuda, cudaStreamWaitEvent);
#undef DP_NCCL_FIND
  if (!status.ok()) return status;
  return e;
}

ncclRedOp_t Operator(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kProduct:
      return ncclProd;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kMean:
      return ncclAvg;
  }
  DP_CHECK(false);
  return ncclSum;
}

ncclDataType_t TypeOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return ncclFloat32;
    case DataType::kFloat64:
      return ncclFloat64;
    case DataType::kFloat16:
      return ncclFloat16;
    case DataType::kBfloat16:
      return ncclBfloat16;
    case DataType::kInt32:
      return ncclInt32;
    case DataType::kInt64:
      return ncclInt64;
    case DataType::kUint8:
      return ncclUint8;
  }
  DP_CHECK(false);
  return ncclUint8;
}

absl::StatusOr<std::vector<ncclUniqueId>> UniqueIds(absl::Span<const std::string> ids) {
  DP_CHECK(!ids.empty());
  std::vector<ncclUniqueId> unique(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i].size() != sizeof(unique[i].internal))
      return absl::InvalidArgumentError(absl::StrCat("NCCL's unique id has ", ids[i].size(),
                                                     " bytes, not ", sizeof(unique[i].internal)));
    std::memcpy(unique[i].internal, ids[i].data(), ids[i].size());
  }
  return unique;
}

// Unset fields leave the choice to NCCL. A library older than the headers takes the fields it
// knows.
ncclConfig_t ConfigOf(const NcclTuning& tuning) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (tuning.cga_cluster_size > 0) config.cgaClusterSize = tuning.cga_cluster_size;
  if (tuning.ctas_max > 0) config.maxCTAs = tuning.ctas_max;
  if (tuning.few_ctas) config.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
  return config;
}

class NcclLibrary : public CudaCalls<NcclApi> {
 public:
  NcclLibrary(const NcclEntries& entries, const CudaEntries& cuda)
      : CudaCalls(cuda), call_(entries) {}

  absl::StatusOr<std::string> PlaceOf(int device) override {
    char place[32] = "";
    DP_RETURN_IF_ERROR(
        FromCuda("cudaDeviceGetPCIBusId",
                 call_.cudaDeviceGetPCIBusId(place, static_cast<int>(sizeof(place)), device)));
    return std::string(place);
  }

  absl::StatusOr<std::string> Version() override {
    int code = 0;
    DP_RETURN_IF_ERROR(FromNccl(call_.ncclGetVersion(&code), nullptr));
    return absl::StrCat(code / 10000, ".", code / 100 % 100, ".", code % 100);
  }

  absl::StatusOr<std::string> UniqueId() override {
    ncclUniqueId id;
    DP_RETURN_IF_ERROR(FromJoining(call_.ncclGetUniqueId(&id), nullptr));
    return std::string(id.internal, sizeof(id.internal));
  }

  absl::StatusOr<Communicator> Join(absl::Span<const std::string> ids, int rank, int size,
                                    const NcclTuning& tuning) override {
    if (ids.size() > 1 && call_.ncclCommInitRankScalable == nullptr)
      return absl::UnimplementedError(absl::StrCat("this NCCL joins by one unique id, and ", size,
                                                   " ranks were given ", ids.size()));
    DP_ASSIGN_OR_RETURN(std::vector<ncclUniqueId> unique, UniqueIds(ids));
    ncclConfig_t config = ConfigOf(tuning);
    ncclComm_t communicator = nullptr;
    const ncclResult_t begun =
        unique.size() == 1
            ? call_.ncclCommInitRankConfig(&communicator, size, unique[0], rank, &config)
            : call_.ncclCommInitRankScalable(&communicator, size, rank,
                                             static_cast<int>(unique.size()), unique.data(),
                                             &config);
    const absl::Status status = FromJoining(begun, communicator);
    if (status.ok()) return communicator;
    if (communicator != nullptr) (void)call_.ncclCommAbort(communicator);
    return status;
  }

  absl::StatusOr<bool> Joined(Communicator communicator) override {
    DP_ASSIGN_OR_RETURN(const ncclResult_t state, StateOf(communicator));
    DP_RETURN_IF_ERROR(FromJoining(state, Of(communicator)));
    return state == ncclSuccess;
  }
  absl::StatusOr<bool> Ready(Communicator communicator) override {
    DP_ASSIGN_OR_RETURN(const ncclResult_t state, StateOf(communicator));
    DP_RETURN_IF_ERROR(FromNccl(state, Of(communicator)));
    return state == ncclSuccess;
  }

  absl::Status Finalize(Communicator communicator) override {
    return FromNccl(call_.ncclCommFinalize(Of(communicator)), Of(communicator));
  }
  // Both results concern a communicator that no longer exists.
  void Destroy(Communicator communicator) override {
    (void)call_.ncclCommDestroy(Of(communicator));
  }
  void Abort(Communicator communicator) override { (void)call_.ncclCommAbort(Of(communicator)); }

  absl::Status Give(Communicator communicator, const Collective& call, Stream stream) override {
    return FromNccl(Call(call, Of(communicator), static_cast<cudaStream_t>(stream)),
                    Of(communicator));
  }

  absl::StatusOr<Stream> MakeStream() override {
    cudaStream_t stream = nullptr;
    int least = 0, greatest = 0;
    DP_RETURN_IF_ERROR(FromCuda("cudaDeviceGetStreamPriorityRange",
                                call_.cudaDeviceGetStreamPriorityRange(&least, &greatest)));
    DP_RETURN_IF_ERROR(
        FromCuda("cudaStreamCreateWithPriority",
                 call_.cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest)));
    return stream;
  }
  // Freeing reports only errors of earlier calls, which those calls have reported.
  void FreeStream(Stream stream) override {
    (void)call_.cudaStreamDestroy(static_cast<cudaStream_t>(stream));
  }
  absl::StatusOr<Event> Record(Stream stream) override {
    cudaEvent_t event = nullptr;
    DP_RETURN_IF_ERROR(FromCuda("cudaEventCreateWithFlags",
                                call_.cudaEventCreateWithFlags(&event, cudaEventDisableTiming)));
    const absl::Status recorded = FromCuda(
        "cudaEventRecord", call_.cudaEventRecord(event, static_cast<cudaStream_t>(stream)));
    if (recorded.ok()) return event;
    FreeEvent(event);
    return recorded;
  }
  absl::StatusOr<bool> Passed(Event event) override {
    const cudaError_t state = call_.cudaEventQuery(static_cast<cudaEvent_t>(event));
    if (state == cudaErrorNotReady) return false;
    DP_RETURN_IF_ERROR(FromCuda("cudaEventQuery", state));
    return true;
  }
  absl::Status WaitOnStream(Stream stream, Event event) override {
    return FromCuda("cudaStreamWaitEvent",
                    call_.cudaStreamWaitEvent(static_cast<cudaStream_t>(stream),
                                              static_cast<cudaEvent_t>(event), 0));
  }
  void FreeEvent(Event event) override {
    (void)call_.cudaEventDestroy(static_cast<cudaEvent_t>(event));
  }

 private:
  absl::StatusOr<ncclResult_t> StateOf(Communicator communicator) const {
    ncclResult_t state = ncclSuccess;
    DP_RETURN_IF_ERROR(
        FromNccl(call_.ncclCommGetAsyncError(Of(communicator), &state), Of(communicator)));
    return state;
  }
  static ncclComm_t Of(Communicator communicator) { return static_cast<ncclComm_t>(communicator); }

  ncclResult_t Call(const Collective& call, ncclComm_t communicator, cudaStream_t stream) const {
    const CallShape& shape = call.shape;
    const ncclDataType_t type = TypeOf(shape.type);
    const void* const from = call.input.data();
    void* const to = call.output.data();
    switch (shape.kind) {
      case CallShape::Kind::kAllReduce:
        return call_.ncclAllReduce(from, to, shape.count, type, Operator(shape.op), communicator,
                                   stream);
      case CallShape::Kind::kReduce:
        return call_.ncclReduce(from, to, shape.count, type, Operator(shape.op), shape.root,
                                communicator, stream);
      case CallShape::Kind::kReduceScatter:
        return call_.ncclReduceScatter(from, to, call.output.size() / SizeOf(shape.type), type,
                                       Operator(shape.op), communicator, stream);
      case CallShape::Kind::kBroadcast:
        return call_.ncclBroadcast(from, to, shape.count, type, shape.root, communicator, stream);
      case CallShape::Kind::kAllGather:
        return call_.ncclAllGather(from, to, shape.count, type, communicator, stream);
      case CallShape::Kind::kExchange:
        return ExchangePieces(call, communicator, stream);
      case CallShape::Kind::kBarrier:
        break;
    }
    DP_CHECK(false);
    return ncclInvalidArgument;
  }

  // NCCL runs what is between start and end at the same time. The end also reports the errors of
  // the calls between.
  ncclResult_t ExchangePieces(const Collective& call, ncclComm_t communicator,
                              cudaStream_t stream) const {
    if (const ncclResult_t started = call_.ncclGroupStart(); started != ncclSuccess) return started;
    for (size_t peer = 0; peer < call.sent.size(); ++peer) {
      const auto& sent = call.sent[peer];
      const auto& received = call.received[peer];
      const int rank = static_cast<int>(peer);
      if (!sent.empty())
        (void)call_.ncclSend(sent.data(), sent.size(), ncclUint8, rank, communicator, stream);
      if (!received.empty())
        (void)call_.ncclRecv(received.data(), received.size(), ncclUint8, rank, communicator,
                             stream);
    }
    return call_.ncclGroupEnd();
  }

  // ncclInProgress is no error: the communicator is non-blocking.
  absl::Status FromNccl(ncclResult_t result, ncclComm_t communicator) const {
    if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
    const bool remote = result == ncclRemoteError || result == ncclSystemError;
    return absl::Status(remote ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal,
                        absl::StrCat("NCCL: ", call_.ncclGetErrorString(result), ": ",
                                     call_.ncclGetLastError(communicator)));
  }

  // Until a communicator has joined, an error of the system or of CUDA is this host's. A peer that
  // is gone or cannot be reached is another error then.
  absl::Status FromJoining(ncclResult_t result, ncclComm_t communicator) const {
    const absl::Status status = FromNccl(result, communicator);
    if (result == ncclSystemError)
      return absl::FailedPreconditionError(
          absl::StrCat(status.message(), "; this host failed, not a peer: NCCL_DEBUG=WARN in the ",
                       "environment says more"));
    if (result == ncclUnhandledCudaError && absl::StrContains(status.message(), "out of memory"))
      return absl::ResourceExhaustedError(
          absl::StrCat("the GPU has no room for NCCL's buffers: ", status.message()));
    return status;
  }

  const NcclEntries call_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<NcclApi>> LoadNccl() {
  // Both stay loaded until the process ends, since NCCL's threads may run that long.
  DP_ASSIGN_OR_RETURN(void* const nccl, OpenLibrary("libnccl.so.2"));
  DP_ASSIGN_OR_RETURN(void* const cuda, OpenCudaLibrary());
  DP_ASSIGN_OR_RETURN(const NcclEntries entries, FindNcclEntries(nccl, cuda));
  DP_ASSIGN_OR_RETURN(const CudaEntries cuda_entries, FindCudaEntries(cuda));
  return std::make_unique<NcclLibrary>(entries, cuda_entries);
}

}  // namespace dp::engine
