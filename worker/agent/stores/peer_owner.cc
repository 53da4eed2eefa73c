#include "worker/agent/stores/peer_owner.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status.h"
#include "store/wire/socket.h"

namespace dp::worker {
namespace {

// One end of a connection as the kernel's table has it: four bytes of an IPv4 address, or sixteen.
struct TableEnd {
  sa_family_t family = AF_UNSPEC;
  std::array<uint32_t, 4> address{};
  in_port_t port = 0;  // network byte order, as the address
};

// An IPv4-mapped address is IPv4: the other end may be an IPv4 socket.
TableEnd ToTableEnd(const sockaddr_storage& address) {
  TableEnd end;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    end = {AF_INET, {v4.sin_addr.s_addr}, v4.sin_port};
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    end = {AF_INET6, {}, v6.sin6_port};
    std::memcpy(end.address.data(), &v6.sin6_addr, sizeof(v6.sin6_addr));
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) end = {AF_INET, {end.address[3]}, v6.sin6_port};
  }
  return end;
}

using EndOf = int(int, sockaddr*, socklen_t*);  // getsockname or getpeername

absl::StatusOr<sockaddr_storage> AddressBy(EndOf* end_of, int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (end_of(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0) return address;
  return wire::ErrnoStatus("address of a connection");
}

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 request{};
};

Question QuestionFor(const TableEnd& own, const TableEnd& other) {
  Question question;
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  inet_diag_req_v2& request = question.request;
  request.sdiag_family = own.family;
  request.sdiag_protocol = IPPROTO_TCP;
  request.idiag_states = ~uint32_t{0};
  request.id.idiag_sport = own.port;
  request.id.idiag_dport = other.port;
  std::memcpy(request.id.idiag_src, own.address.data(), sizeof(own.address));
  std::memcpy(request.id.idiag_dst, other.address.data(), sizeof(other.address));
  request.id.idiag_cookie[0] = request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return question;
}

// Takes a struct of the kernel off the bytes; false if they are too few.
template <typename Struct>
bool Take(absl::Span<const char>& bytes, Struct* taken) {
  if (bytes.size() < sizeof(*taken)) return false;
  std::memcpy(taken, bytes.data(), sizeof(*taken));
  bytes.remove_prefix(sizeof(*taken));
  return true;
}

// The cgroup among these attributes; 0: none, as before Linux 5.8.
uint64_t CgroupIn(absl::Span<const char> attributes) {
  rtattr head{};
  while (Take(attributes, &head) && head.rta_len >= sizeof(head)) {
    absl::Span<const char> value = attributes.subspan(0, head.rta_len - sizeof(head));
    uint64_t cgroup = 0;
    if (head.rta_type == INET_DIAG_CGROUP_ID && Take(value, &cgroup)) return cgroup;
    attributes.remove_prefix(
        std::min<size_t>(attributes.size(), RTA_ALIGN(head.rta_len) - sizeof(head)));
  }
  return 0;
}

// Errors: NotFound no such socket; Unimplemented the kernel does not answer.
absl::StatusOr<PeerOwner> OwnerOf(const TableEnd& own, const TableEnd& other) {
  const FileDescriptor table(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!table.valid()) return absl::UnimplementedError(strerror(errno));
  const Question question = QuestionFor(own, other);
  if (send(table.get(), &question, sizeof(question), 0) < 0) return wire::ErrnoStatus("sock_diag");
  std::array<char, 1024> answer;
  const ssize_t size = recv(table.get(), answer.data(), answer.size(), 0);
  if (size < 0) return wire::ErrnoStatus("sock_diag");
  return OwnerInAnswer({answer.data(), static_cast<size_t>(size)});
}

}  // namespace

absl::StatusOr<PeerOwner> OwnerInAnswer(absl::Span<const char> answer) {
  nlmsghdr header{};
  const size_t received = answer.size();
  if (!Take(answer, &header) || header.nlmsg_len < sizeof(header) || header.nlmsg_len > received) {
    return absl::InternalError("sock_diag: half an answer");
  }
  answer = answer.subspan(0, header.nlmsg_len - sizeof(header));
  inet_diag_msg found{};
  // A socket that its process has closed belongs to nobody; the table shows root.
  if (header.nlmsg_type == SOCK_DIAG_BY_FAMILY && Take(answer, &found) && found.idiag_inode != 0) {
    return PeerOwner{found.idiag_uid, {found.idiag_inode, CgroupIn(answer)}};
  }
  return absl::NotFoundError("the kernel's table has no such socket");
}

absl::Status CheckSocketTable() {
  DP_ASSIGN_OR_RETURN(const FileDescriptor listener, wire::Listen("127.0.0.1", 0));
  DP_ASSIGN_OR_RETURN(const sockaddr_storage own, AddressBy(getsockname, listener.get()));
  return OwnerOf(ToTableEnd(own), {.family = own.ss_family}).status();
}

absl::StatusOr<PeerOwner> OwnerOfPeer(int socket) {
  DP_ASSIGN_OR_RETURN(const sockaddr_storage here, AddressBy(getsockname, socket));
  DP_ASSIGN_OR_RETURN(const sockaddr_storage there, AddressBy(getpeername, socket));
  const absl::StatusOr<PeerOwner> owner = OwnerOf(ToTableEnd(there), ToTableEnd(here));
  if (!absl::IsNotFound(owner.status())) return owner;
  if (!wire::IsOfThisHost(there)) return absl::NotFoundError("the other end is on another host");
  return absl::UnavailableError("a process has connected and closed its end");
}

absl::Status CheckUser(uid_t user, const ServedRanks& served) {
  if (user == served.user || user == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("a process of user ", user,
                                                  " has connected; only those of user ",
                                                  served.user, " and of root are served"));
}

// Other users' processes are refused first, because looking for a rank's may take long.
absl::Status CheckOwner(const PeerOwner& owner, const ServedRanks& served,
                        const RankProcesses& processes) {
  DP_RETURN_IF_ERROR(CheckUser(owner.user, served));
  const bool by_root = owner.user == 0 && served.user != 0;
  if (by_root || processes.Hold(served.job, served.generation, owner.socket)) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat("a process of user ", owner.user,
                                                  " has connected that no rank of job ",
                                                  served.job.ToString(), " has started"));
}

}  // namespace dp::worker
