// A fake of libnccl.so.2 between processes of one host. Rank 0 is connected to every other rank
// over loopback. It receives each rank's data in rank order, and sends all of them to every rank,
// which computes its own result. As in the real library, no call blocks, the caller polls for
// errors, and an abort ends operations in flight. Reductions are of floats only.

#include <arpa/inet.h>
#include <nccl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/fake_cuda/host_stream.h"
#include "worker/engine/collectives/reduce/half_floats.h"

namespace {

using dp::fake_cuda::HostStream;

// The socket on which GetUniqueId listens, for the communicator that this process makes.
int listener_of_id = -1;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

bool SendAll(int socket, const void* bytes, size_t count) {
  const char* at = static_cast<const char*>(bytes);
  for (size_t sent = 0; sent < count;) {
    const ssize_t now = send(socket, at + sent, count - sent, MSG_NOSIGNAL);
    if (now <= 0) return false;
    sent += static_cast<size_t>(now);
  }
  return true;
}

bool ReceiveAll(int socket, void* bytes, size_t count) {
  char* at = static_cast<char*>(bytes);
  for (size_t got = 0; got < count;) {
    const ssize_t now = recv(socket, at + got, count - got, 0);
    if (now <= 0) return false;
    got += static_cast<size_t>(now);
  }
  return true;
}

using Bytes = std::vector<char>;

bool SendBytes(int socket, const Bytes& bytes) {
  const uint64_t size = bytes.size();
  return SendAll(socket, &size, sizeof(size)) && SendAll(socket, bytes.data(), bytes.size());
}
bool ReceiveBytes(int socket, Bytes& bytes) {
  uint64_t size = 0;
  if (!ReceiveAll(socket, &size, sizeof(size))) return false;
  bytes.resize(size);
  return ReceiveAll(socket, bytes.data(), bytes.size());
}

}  // namespace

// Made by Init, ended by Destroy or Abort. Operations in flight keep it alive.
struct ncclComm {
  ncclComm(int its_rank, int its_size, uint16_t port)
      : rank(its_rank),
        size(its_size),
        listener(rank == 0 ? std::exchange(listener_of_id, -1) : -1) {
    sockets = std::vector<std::atomic<int>>(static_cast<size_t>(size));
    for (auto& socket : sockets) socket = -1;
    joining = std::jthread([this, port] { Fail(rank == 0 ? Accept() : Connect(port)); });
  }
  ~ncclComm() {
    Stop();
    joining.join();
    for (auto& socket : sockets) close(socket);
    close(listener);
  }

  // Ends every wait for a peer.
  void Stop() {
    stopped = true;
    shutdown(listener, SHUT_RDWR);
    for (auto& socket : sockets) shutdown(socket, SHUT_RDWR);
  }
  void Fail(bool well) {
    if (!well) error = ncclRemoteError;
    if (well && state == ncclInProgress) state = ncclSuccess;
  }

  bool Accept() {
    for (int joined = 1; joined < size; ++joined) {
      const int socket = accept(listener, nullptr, nullptr);
      int peer = 0;
      if (socket < 0 || !ReceiveAll(socket, &peer, sizeof(peer))) return false;
      sockets[static_cast<size_t>(peer)] = socket;
      if (stopped) Stop();
    }
    return true;
  }
  bool Connect(uint16_t port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockets[0] = socket;
    const sockaddr_in address = Loopback(port);
    return connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
           SendAll(socket, &rank, sizeof(rank));
  }

  // Fills `all` with the data of all ranks, in rank order.
  bool Exchange(const Bytes& mine, std::vector<Bytes>& all) {
    all.resize(static_cast<size_t>(size));
    if (rank != 0) {
      return SendBytes(sockets[0], mine) &&
             std::all_of(all.begin(), all.end(),
                         [this](Bytes& each) { return ReceiveBytes(sockets[0], each); });
    }
    all[0] = mine;
    for (size_t peer = 1; peer < all.size(); ++peer) {
      if (!ReceiveBytes(sockets[peer], all[peer])) return false;
    }
    for (size_t peer = 1; peer < all.size(); ++peer) {
      for (const Bytes& each : all) {
        if (!SendBytes(sockets[peer], each)) return false;
      }
    }
    return true;
  }

  const int rank, size;
  const int listener;
  std::atomic<bool> stopped = false;
  std::atomic<ncclResult_t> state = ncclInProgress;
  std::atomic<ncclResult_t> error = ncclSuccess;
  std::vector<std::atomic<int>> sockets;  // by rank
  std::jthread joining;
};

namespace {

// The caller's handle. A communicator is freed only when its last operation has also ended.
using Held = std::shared_ptr<ncclComm>;
Held& HeldBy(ncclComm_t communicator) { return *reinterpret_cast<Held*>(communicator); }

// Computes this rank's result from the data of all ranks.
using Combine = std::function<Bytes(const std::vector<Bytes>&)>;

ncclResult_t Give(ncclComm_t communicator, cudaStream_t stream, const void* from, size_t bytes,
                  void* to, Combine combine) {
  reinterpret_cast<HostStream*>(stream)->Give(
      [comm = HeldBy(communicator), from, bytes, to, combine = std::move(combine)] {
        std::vector<Bytes> all;
        const char* const begin = static_cast<const char*>(from);
        const bool well = comm->Exchange(Bytes(begin, begin + bytes), all);
        if (well) {
          const Bytes result = combine(all);
          if (!result.empty()) std::memcpy(to, result.data(), result.size());
        }
        comm->Fail(well);
      });
  return ncclSuccess;
}

// The sends and receives between a start and an end of this thread's group.
struct Piece {
  void* memory;
  size_t bytes;
  int peer;
};
struct Group {
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Piece> sent, received;
};
thread_local Group group;

// The data of a rank is, for each of its sends, the peer, the size and the bytes.
Bytes Packed(const std::vector<Piece>& sent) {
  Bytes packed;
  const auto append = [&packed](const void* bytes, size_t count) {
    const char* const begin = static_cast<const char*>(bytes);
    packed.insert(packed.end(), begin, begin + count);
  };
  for (const Piece& piece : sent) {
    append(&piece.peer, sizeof(piece.peer));
    append(&piece.bytes, sizeof(piece.bytes));
    append(piece.memory, piece.bytes);
  }
  return packed;
}

// Copies what `packed` has for `rank`. False if it has not as many bytes.
bool Unpack(const Bytes& packed, int rank, const Piece& to) {
  for (size_t at = 0; at < packed.size();) {
    int peer = 0;
    size_t bytes = 0;
    std::memcpy(&peer, &packed[at], sizeof(peer));
    std::memcpy(&bytes, &packed[at + sizeof(peer)], sizeof(bytes));
    at += sizeof(peer) + sizeof(bytes);
    if (peer == rank && bytes == to.bytes) {
      std::memcpy(to.memory, &packed[at], bytes);
      return true;
    }
    at += bytes;
  }
  return false;
}

void RunGroup(ncclComm& comm, const Group& given) {
  std::vector<Bytes> all;
  bool well = comm.Exchange(Packed(given.sent), all);
  for (const Piece& piece : given.received)
    well = well && Unpack(all[static_cast<size_t>(piece.peer)], comm.rank, piece);
  comm.Fail(well);
}

size_t SizeOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
    case ncclUint64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
    case ncclUint32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

// How an element is read and written: as the number that is added.
struct Single {
  using Element = float;
  static float Load(float element) { return element; }
  static float Store(float value) { return value; }
};
struct Double {
  using Element = double;
  static double Load(double element) { return element; }
  static double Store(double value) { return value; }
};
struct Half {
  using Element = dp::engine::Float16;
  static float Load(Element element) { return dp::engine::ToFloat(element); }
  static Element Store(float value) { return dp::engine::ToFloat16(value); }
};
struct Brain {
  using Element = dp::engine::Bfloat16;
  static float Load(Element element) { return dp::engine::ToFloat(element); }
  static Element Store(float value) { return dp::engine::ToBfloat16(value); }
};

template <typename Number>
Number Reduced(ncclRedOp_t op, Number a, Number b) {
  return op == ncclMin ? std::min(a, b) : op == ncclMax ? std::max(a, b) : a + b;
}

template <typename Type>
Bytes ReduceAs(const std::vector<Bytes>& all, ncclRedOp_t op) {
  using Element = typename Type::Element;
  Bytes reduced(all[0].size());
  for (size_t at = 0; at + sizeof(Element) <= reduced.size(); at += sizeof(Element)) {
    const auto of = [&](const Bytes& bytes) {
      Element element;
      std::memcpy(&element, &bytes[at], sizeof(element));
      return Type::Load(element);
    };
    auto sum = of(all[0]);
    for (size_t rank = 1; rank < all.size(); ++rank) sum = Reduced(op, sum, of(all[rank]));
    if (op == ncclAvg) sum /= static_cast<decltype(sum)>(all.size());
    const Element element = Type::Store(sum);
    std::memcpy(&reduced[at], &element, sizeof(element));
  }
  return reduced;
}

Bytes Reduce(const std::vector<Bytes>& all, ncclRedOp_t op, ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
      return ReduceAs<Double>(all, op);
    case ncclFloat16:
      return ReduceAs<Half>(all, op);
    case ncclBfloat16:
      return ReduceAs<Brain>(all, op);
    default:
      return ReduceAs<Single>(all, op);
  }
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "remote error"; }
const char* ncclGetLastError(ncclComm_t) { return "a connection has ended"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  listener_of_id = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_of_id, at, size) != 0 || listen(listener_of_id, 64) != 0 ||
      getsockname(listener_of_id, at, &size) != 0) {
    return ncclSystemError;
  }
  *id = {};
  const uint16_t port = ntohs(address.sin_port);
  std::memcpy(id->internal, &port, sizeof(port));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  uint16_t port = 0;
  std::memcpy(&port, id.internal, sizeof(port));
  *communicator =
      reinterpret_cast<ncclComm_t>(new Held(std::make_shared<ncclComm>(rank, size, port)));
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  const ncclComm& comm = *HeldBy(communicator);
  *state = comm.error != ncclSuccess ? comm.error : comm.state;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  delete &HeldBy(communicator);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  HeldBy(communicator)->Stop();
  return ncclCommDestroy(communicator);
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  return Give(communicator, stream, from, count * SizeOf(type), to,
              [op, type](const std::vector<Bytes>& all) { return Reduce(all, op, type); });
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return Give(communicator, stream, from, count * SizeOf(type), to,
              [root](const std::vector<Bytes>& all) { return all[static_cast<size_t>(root)]; });
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return Give(communicator, stream, from, count * SizeOf(type), to,
              [](const std::vector<Bytes>& all) {
                Bytes joined;
                for (const Bytes& each : all) joined.insert(joined.end(), each.begin(), each.end());
                return joined;
              });
}

ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t communicator, cudaStream_t stream) {
  const bool receives = HeldBy(communicator)->rank == root;
  return Give(communicator, stream, from, count * SizeOf(type), to,
              [op, type, receives](const std::vector<Bytes>& all) {
                return receives ? Reduce(all, op, type) : Bytes();
              });
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
  const ncclComm& comm = *HeldBy(communicator);
  const size_t bytes = count * SizeOf(type);
  return Give(communicator, stream, from, bytes * static_cast<size_t>(comm.size), to,
              [op, type, bytes, rank = comm.rank](const std::vector<Bytes>& all) {
                const Bytes whole = Reduce(all, op, type);
                const auto begin = whole.begin() + static_cast<ptrdiff_t>(bytes) * rank;
                return Bytes(begin, begin + static_cast<ptrdiff_t>(bytes));
              });
}

// Only within a group.
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  group.communicator = communicator;
  group.stream = stream;
  group.sent.push_back({const_cast<void*>(from), count * SizeOf(type), peer});
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  group.communicator = communicator;
  group.stream = stream;
  group.received.push_back({to, count * SizeOf(type), peer});
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  group = {};
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group.communicator == nullptr) return ncclSuccess;
  reinterpret_cast<HostStream*>(group.stream)
      ->Give([comm = HeldBy(group.communicator), given = std::exchange(group, {})] {
        RunGroup(*comm, given);
      });
  return ncclSuccess;
}

}  // extern "C"
