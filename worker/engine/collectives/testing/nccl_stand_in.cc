// Stands in for NCCL's library and for CUDA's runtime, and records the calls: built once under each
// of their names. A test loads both before LoadNccl asks for the real ones, and so sees the
// arguments that those would get. Not thread-safe.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

namespace {

std::ostringstream noted;
std::string told;
std::string reason = "its reason";
ncclResult_t answer = ncclSuccess;  // of the next call that can fail
ncclResult_t state = ncclSuccess;   // of the communicator
cudaError_t event_state = cudaSuccess;

template <typename... Parts>
void Note(const Parts&... parts) {
  (noted << ... << parts) << '\n';
}

ncclResult_t Answer() { return std::exchange(answer, ncclSuccess); }

ncclComm_t const kCommunicator = reinterpret_cast<ncclComm_t>(0xc0);

ncclResult_t Join(ncclComm_t* communicator, const ncclConfig_t& config) {
  Note("config size=", config.size == sizeof(ncclConfig_t), " blocking=", config.blocking,
       " cga=", config.cgaClusterSize,
       " max_ctas=", config.maxCTAs == NCCL_CONFIG_UNDEF_INT ? 0 : config.maxCTAs,
       " policy=", config.CTAPolicy);
  *communicator = kCommunicator;
  return Answer();
}

}  // namespace

extern "C" {

// The calls since the last question, one line each.
const char* StandInCalls() {
  told = noted.str();
  noted.str("");
  return told.c_str();
}
void StandInAnswers(int next, int communicator, int event) {
  answer = static_cast<ncclResult_t>(next);
  state = static_cast<ncclResult_t>(communicator);
  event_state = static_cast<cudaError_t>(event);
}
void StandInReason(const char* words) { reason = words; }

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::fill(std::begin(id->internal), std::end(id->internal), 'u');
  return Answer();
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  Note("init size=", size, " id=", id.internal[127], " rank=", rank);
  return Join(communicator, *config);
}
ncclResult_t ncclCommInitRankScalable(ncclComm_t* communicator, int size, int rank, int count,
                                      ncclUniqueId* ids, ncclConfig_t* config) {
  Note("init size=", size, " rank=", rank, " ids=", count, " last=", ids[count - 1].internal[0]);
  return Join(communicator, *config);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = state;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  Note("finalize ", communicator);
  return Answer();
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  Note("destroy ", communicator);
  return Answer();
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  Note("abort ", communicator);
  return Answer();
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  Note("all_reduce ", from, " ", to, " count=", count, " type=", type, " op=", op, " ",
       communicator, " ", stream);
  return Answer();
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  Note("broadcast ", from, " ", to, " count=", count, " type=", type, " root=", root, " ",
       communicator, " ", stream);
  return Answer();
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  Note("all_gather ", from, " ", to, " count=", count, " type=", type, " ", communicator, " ",
       stream);
  return Answer();
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t communicator, cudaStream_t stream) {
  Note("reduce ", from, " ", to, " count=", count, " type=", type, " op=", op, " root=", root, " ",
       communicator, " ", stream);
  return Answer();
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  Note("reduce_scatter ", from, " ", to, " count=", count, " type=", type, " op=", op, " ",
       communicator, " ", stream);
  return Answer();
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  Note("send ", from, " count=", count, " type=", type, " to=", peer, " ", communicator, " ",
       stream);
  return Answer();
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  Note("receive ", to, " count=", count, " type=", type, " from=", peer, " ", communicator, " ",
       stream);
  return Answer();
}
ncclResult_t ncclGroupStart() {
  Note("group");
  return Answer();
}
ncclResult_t ncclGroupEnd() {
  Note("end");
  return Answer();
}
const char* ncclGetErrorString(ncclResult_t) { return "an error"; }
const char* ncclGetLastError(ncclComm_t) { return reason.c_str(); }

cudaError_t cudaSetDevice(int device) {
  Note("device ", device);
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 3;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 4;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  Note("await device");
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  Note("forget error");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* place, int length, int device) {
  return std::snprintf(place, static_cast<size_t>(length), "0000:%02x:00.0", device) < length
             ? cudaSuccess
             : cudaErrorInvalidValue;
}
// The number of the memory's kind is its address.
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  attributes->type = static_cast<cudaMemoryType>(reinterpret_cast<uintptr_t>(memory));
  attributes->device = 6;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  Note("stream flags=", flags, " priority=", priority);
  *stream = reinterpret_cast<cudaStream_t>(0x50);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Note("free stream ", stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Note("await ", stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  Note("wait ", stream, " ", event, " flags=", flags);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  Note("event flags=", flags);
  *event = reinterpret_cast<cudaEvent_t>(0xe0);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Note("record ", event, " ", stream);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) { return event_state; }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Note("free event ", event);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (bytes > (size_t{1} << 40)) return cudaErrorMemoryAllocation;
  *memory = reinterpret_cast<void*>(0xa0);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  Note("free ", memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  Note("copy ", to, " ", from, " bytes=", bytes, " kind=", kind, " ", stream);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  Note("set ", memory, " ", value, " bytes=", bytes, " ", stream);
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "an error of CUDA's"; }

}  // extern "C"
