#include "server/connections/stream_counts.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/socket_end.h"

namespace dp::server {
namespace {

// gRPC gives its statistics as the JSON form of grpc.channelz.v1. In it an integer of 64 bits is a
// string, and a zero is left out. The few values are found by their names, without parsing the
// rest: certificates of both sides make up most of it.
class Statistics {
 public:
  // Takes over the text; null: gRPC does not know what was asked for.
  explicit Statistics(char* json) : json_(json), rest_(json == nullptr ? "" : json) {}
  ~Statistics() { gpr_free(json_); }
  Statistics(const Statistics&) = delete;
  Statistics& operator=(const Statistics&) = delete;

  // Goes on behind the value of the next field of that name. Empty: there is none.
  absl::string_view Next(absl::string_view field) {
    const size_t at = rest_.find(field);
    if (at == absl::string_view::npos) return "";
    rest_.remove_prefix(at + field.size());
    return rest_.substr(0, rest_.find('"'));
  }
  uint64_t NextNumber(absl::string_view field) {
    const absl::string_view text = Next(field);
    uint64_t number = 0;
    (void)std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }
  uint64_t Number(absl::string_view field) const { return Statistics(rest_).NextNumber(field); }

 private:
  explicit Statistics(absl::string_view rest) : json_(nullptr), rest_(rest) {}

  char* const json_;
  absl::string_view rest_;
};

// gRPC lists a part of its servers or sockets at a time, in the order of their numbers.
std::vector<int64_t> NumbersIn(absl::FunctionRef<char*(int64_t)> list_from,
                               absl::string_view field) {
  std::vector<int64_t> numbers;
  for (bool more = true; more;) {
    more = false;
    Statistics page(list_from(numbers.empty() ? 0 : numbers.back() + 1));
    while (const auto number = static_cast<int64_t>(page.NextNumber(field))) {
      numbers.push_back(number);
      more = true;
    }
  }
  return numbers;
}

}  // namespace

void CountStreams(absl::FunctionRef<void(const StreamCounts&)> visit) {
  std::vector<int64_t> sockets;
  for (const int64_t server : NumbersIn(grpc_channelz_get_servers, R"("serverId":")")) {
    const auto sockets_from = [server](int64_t from) {
      return grpc_channelz_get_server_sockets(server, from, /*max_results=*/0);
    };
    const std::vector<int64_t> of_server = NumbersIn(sockets_from, R"("socketId":")");
    sockets.insert(sockets.end(), of_server.begin(), of_server.end());
  }
  std::sort(sockets.begin(), sockets.end(), std::greater<>());
  for (const int64_t id : sockets) {
    Statistics socket(grpc_channelz_get_socket(id));
    StreamCounts counts{.begun = socket.Number(R"("streamsStarted":")"),
                        .messages = socket.Number(R"("messagesReceived":")")};
    counts.end = SocketEndOfPeer(socket.Next(R"("name":"chttp2 )"));
    visit(counts);
  }
}

}  // namespace dp::server
