#include "worker/engine/collectives/shm/local_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace dp::engine {
namespace {

// Longer than any message.
constexpr size_t kBytesMax = 256;

absl::Status SocketError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::StatusOr<FileDescriptor> OpenSocket() {
  FileDescriptor opened(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!opened.valid()) return SocketError("socket");
  return opened;
}

struct Address {
  explicit Address(absl::string_view name) {
    DP_CHECK(!name.empty() && name.size() < sizeof(un.sun_path));
    un.sun_family = AF_UNIX;
    // The zero before the name makes it abstract.
    std::copy(name.begin(), name.end(), un.sun_path + 1);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&un); }

  sockaddr_un un{};
  socklen_t size = 0;
};

// The buffer of a message's files, aligned as the kernel wants it.
struct FilesBuffer {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * kFilesPerMessageMax)] = {};
};

}  // namespace

absl::StatusOr<FileDescriptor> ListenLocally(absl::string_view name, int backlog) {
  DP_ASSIGN_OR_RETURN(FileDescriptor listener, OpenSocket());
  const Address address(name);
  if (bind(listener.get(), address.get(), address.size) != 0) return SocketError("bind");
  if (listen(listener.get(), backlog) != 0) return SocketError("listen");
  return listener;
}

absl::StatusOr<FileDescriptor> ConnectLocally(absl::string_view name) {
  DP_ASSIGN_OR_RETURN(FileDescriptor caller, OpenSocket());
  const Address address(name);
  if (connect(caller.get(), address.get(), address.size) != 0) return SocketError("connect");
  return caller;
}

absl::StatusOr<FileDescriptor> AcceptLocally(const FileDescriptor& listener) {
  FileDescriptor caller(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (caller.valid()) return caller;
  return errno == EAGAIN ? absl::NotFoundError("nobody calls") : SocketError("accept4");
}

absl::StatusOr<uid_t> UserAtOtherEnd(const FileDescriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return SocketError("SO_PEERCRED");
  return peer.uid;
}

absl::Status SendMessage(const FileDescriptor& socket, absl::string_view bytes,
                         absl::Span<const int> files) {
  DP_CHECK(bytes.size() <= kBytesMax && files.size() <= kFilesPerMessageMax);
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  FilesBuffer buffer;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = buffer.bytes;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * files.size());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * files.size());
    std::memcpy(CMSG_DATA(header), files.data(), sizeof(int) * files.size());
  }
  if (sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0) return SocketError("sendmsg");
  return absl::OkStatus();
}

absl::StatusOr<LocalMessage> ReceiveMessage(const FileDescriptor& socket) {
  LocalMessage received;
  received.bytes.resize(kBytesMax);
  iovec part{received.bytes.data(), received.bytes.size()};
  FilesBuffer buffer;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = buffer.bytes;
  message.msg_controllen = sizeof(buffer.bytes);
  const ssize_t bytes = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (bytes < 0 && errno == EAGAIN) return absl::NotFoundError("nothing has arrived");
  if (bytes < 0 && errno == ECONNRESET) return absl::AbortedError("the other end is closed");
  if (bytes < 0) return SocketError("recvmsg");
  // Takes the files before any check, so that none of them leaks.
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    std::vector<int> files((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(files.data(), CMSG_DATA(header), files.size() * sizeof(int));
    for (const int file : files) received.files.emplace_back(file);
  }
  if (bytes == 0) return absl::AbortedError("the other end is closed");
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return absl::ResourceExhaustedError("a message arrived incomplete; are too many files open?");
  received.bytes.resize(static_cast<size_t>(bytes));
  return received;
}

}  // namespace dp::engine
