#include "worker/library/init_method.h"

#include <arpa/inet.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/host_port.h"
#include "base/status.h"

namespace dp::library {
namespace {

using distributed::InitOptions;

absl::Status Invalid(const absl::AlphaNum& a, const absl::AlphaNum& b = "",
                     const absl::AlphaNum& c = "", const absl::AlphaNum& d = "") {
  return absl::InvalidArgumentError(absl::StrCat(a, b, c, d));
}

absl::Status CheckPlace(const Meeting& meeting) {
  if (meeting.world_size < 1)
    return Invalid("world_size is ", meeting.world_size, "; give the number of ranks, 1 at least");
  if (meeting.rank < 0 || meeting.rank >= meeting.world_size)
    return Invalid("rank is ", meeting.rank, "; give a number from 0 to world_size - 1, which is ",
                   meeting.world_size - 1);
  return absl::OkStatus();
}

// The place, which only the options give.
absl::Status TakePlace(const InitOptions& options, absl::string_view with, Meeting* meeting) {
  std::vector<absl::string_view> missing;
  if (!options.world_size) missing.push_back("world_size");
  if (!options.rank) missing.push_back("rank");
  if (!missing.empty())
    return Invalid(with, " needs ", absl::StrJoin(missing, " and "), "; set it in InitOptions");
  meeting->world_size = *options.world_size;
  meeting->rank = *options.rank;
  return CheckPlace(*meeting);
}

bool IsMulticast(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return IN_MULTICAST(ntohl(four.s_addr));
  return inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_MULTICAST(&six);
}

absl::StatusOr<Meeting> ReadTcp(const InitOptions& options, absl::string_view address) {
  Meeting meeting{.where = Meeting::Where::kTcp};
  if (absl::StrContains(address, '?') || absl::StrContains(address, '/'))
    return Invalid("init method ", options.init_method,
                   " has more than HOST:PORT; set rank and world_size in InitOptions");
  DP_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(std::string(address)));
  int port = 0;
  (void)absl::SimpleAtoi(parsed.port, &port);  // ParseHostPort has checked it
  meeting.host = parsed.host;
  meeting.port = static_cast<uint16_t>(port);
  if (IsMulticast(meeting.host))
    return Invalid("init method ", options.init_method,
                   " has a multicast address, at which nobody can serve the store where the ranks "
                   "meet; give an address of rank 0's host");
  DP_RETURN_IF_ERROR(TakePlace(options, options.init_method, &meeting));
  return meeting;
}

absl::StatusOr<Meeting> ReadFile(const InitOptions& options, absl::string_view path) {
  Meeting meeting{.where = Meeting::Where::kFile, .path = std::string(path)};
  if (!absl::StartsWith(path, "/") || absl::EndsWith(path, "/"))
    return Invalid("init method ", options.init_method,
                   " has no absolute path; write file:///DIRECTORY/FILE with three slashes");
  DP_RETURN_IF_ERROR(TakePlace(options, options.init_method, &meeting));
  return meeting;
}

// Reads the place from the environment, where the options do not give it.
class EnvironmentReader {
 public:
  explicit EnvironmentReader(const Variables& variables) : variables_(variables) {}

  int Number(absl::string_view name, const std::optional<int>& given) {
    if (given) return *given;
    const std::string text = Text(name);
    int number = 0;
    if (!text.empty() && !absl::SimpleAtoi(text, &number))
      wrong_.push_back(absl::StrCat(name, " is '", text, "', which is no number"));
    return number;
  }
  std::string Text(absl::string_view name) {
    const std::optional<std::string> value = variables_(name);
    if (value && !value->empty()) return *value;
    missing_.push_back(name);
    return "";
  }
  absl::Status status() const {
    if (!missing_.empty())
      return Invalid("init method env:// misses the environment variables ",
                     absl::StrJoin(missing_, ", "),
                     "; start the program by dpctl run or torchrun, set them, or give another init "
                     "method");
    return wrong_.empty() ? absl::OkStatus()
                          : Invalid("init method env://: ", absl::StrJoin(wrong_, ", "));
  }

 private:
  const Variables& variables_;
  std::vector<absl::string_view> missing_;
  std::vector<std::string> wrong_;
};

absl::StatusOr<Meeting> ReadEnvironment(const InitOptions& options, const Variables& variables) {
  EnvironmentReader reader(variables);
  Meeting meeting{.where = Meeting::Where::kTcp};
  meeting.host = reader.Text("MASTER_ADDR");
  const int port = reader.Number("MASTER_PORT", std::nullopt);
  meeting.world_size = reader.Number("WORLD_SIZE", options.world_size);
  meeting.rank = reader.Number("RANK", options.rank);
  DP_RETURN_IF_ERROR(reader.status());
  if (port < 1 || port > 65535)
    return Invalid("MASTER_PORT is ", port, "; give a number from 1 to 65535");
  meeting.port = static_cast<uint16_t>(port);
  if (IsMulticast(meeting.host))
    return Invalid("MASTER_ADDR is ", meeting.host,
                   ", a multicast address; give an address of rank 0's host");
  meeting.served = variables("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (meeting.served) {
    meeting.attempt =
        absl::StrCat("attempt_", variables("TORCHELASTIC_RESTART_COUNT").value_or("0"));
  }
  DP_RETURN_IF_ERROR(CheckPlace(meeting));
  return meeting;
}

}  // namespace

Variables VariablesOfProcess() {
  return [](absl::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

absl::StatusOr<Meeting> ReadMeeting(const InitOptions& options, const Variables& variables) {
  absl::string_view method = options.init_method;
  if (options.store && !method.empty())
    return Invalid("both store and init_method are given, which exclude each other; remove one");
  if (options.store) {
    Meeting meeting;
    DP_RETURN_IF_ERROR(TakePlace(options, "store", &meeting));
    return meeting;
  }
  if (method.empty() || method == "env://") return ReadEnvironment(options, variables);
  if (absl::ConsumePrefix(&method, "tcp://")) return ReadTcp(options, method);
  if (absl::ConsumePrefix(&method, "file://")) return ReadFile(options, method);
  if (absl::StartsWith(method, "dp://"))
    return absl::UnimplementedError(absl::StrCat(
        "init method ", method,
        " needs a rank that a coordinator gives; start the program by dpctl run and use env://"));
  return Invalid("init method '", options.init_method,
                 "' is unknown; use env://, tcp://HOST:PORT or file:///PATH");
}

}  // namespace dp::library
