#include "worker/library/init_method.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
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
                     const absl::AlphaNum& c = "", const absl::AlphaNum& d = "",
                     const absl::AlphaNum& e = "") {
  return absl::InvalidArgumentError(absl::StrCat(a, b, c, d, e));
}

absl::Status CheckPlace(const Meeting& meeting) {
  if (meeting.world_size < 1)
    return Invalid("world_size is ", meeting.world_size, "; give the number of ranks, 1 at least");
  if (meeting.rank < 0 || meeting.rank >= meeting.world_size)
    return Invalid("rank is ", meeting.rank, "; give a number from 0 to world_size - 1, which is ",
                   meeting.world_size - 1);
  return absl::OkStatus();
}

// Completes the errors of tcp://.
constexpr absl::string_view kNoDiscovery = ", because ranks are not discovered by group_name";

// The place, which only the options give. `why` ends the error.
absl::Status TakePlace(const InitOptions& options, absl::string_view with, Meeting* meeting,
                       absl::string_view why = "") {
  std::vector<absl::string_view> missing;
  if (!options.world_size) missing.push_back("world_size");
  if (!options.rank) missing.push_back("rank");
  if (!missing.empty())
    return Invalid(with, " needs ", absl::StrJoin(missing, " and "),
                   missing.size() == 1 ? "; set it in InitOptions" : "; set them in InitOptions",
                   why);
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
                   " has more than HOST:PORT; set rank and world_size in InitOptions",
                   kNoDiscovery);
  DP_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(std::string(address)));
  int port = 0;
  (void)absl::SimpleAtoi(parsed.port, &port);  // ParseHostPort has checked it
  meeting.host = parsed.host;
  meeting.port = static_cast<uint16_t>(port);
  if (IsMulticast(meeting.host))
    return Invalid("init method ", options.init_method,
                   " has a multicast address, at which nobody can serve the store where the ranks "
                   "meet; give an address of rank 0's host");
  DP_RETURN_IF_ERROR(TakePlace(options, options.init_method, &meeting, kNoDiscovery));
  return meeting;
}

absl::StatusOr<Meeting> ReadFile(const InitOptions& options, absl::string_view path) {
  Meeting meeting{.where = Meeting::Where::kFile, .path = std::string(path)};
  const size_t host_size = path.find('/');
  if (host_size != path.npos && host_size > 0)
    return Invalid(absl::StrCat("init method ", options.init_method, " names the host ",
                                path.substr(0, host_size)),
                   ", and ranks can only meet in a file that each host has by its path; write "
                   "file:///DIRECTORY/FILE with three slashes");
  if (!absl::StartsWith(path, "/") || absl::EndsWith(path, "/"))
    return Invalid("init method ", options.init_method,
                   " has no absolute path; write file:///DIRECTORY/FILE with three slashes");
  DP_RETURN_IF_ERROR(TakePlace(options, options.init_method, &meeting));
  return meeting;
}

// Reads the place from the environment, where the options do not give it.
class EnvironmentReader {
 public:
  // `remedy` ends the error about missing variables.
  EnvironmentReader(absl::string_view method, absl::string_view remedy, const Variables& variables)
      : method_(method), remedy_(remedy), variables_(variables) {}

  int Number(absl::string_view name, const std::optional<int>& given) {
    if (given) return *given;
    const std::string text = Text(name);
    int number = 0;
    if (!text.empty() && !absl::SimpleAtoi(text, &number))
      wrong_.push_back(absl::StrCat(name, " is '", text, "', which is ",
                                    WhyNoNumber(text, std::numeric_limits<int>::max())));
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
      return Invalid(absl::StrCat("init method ", method_, " misses "), VariableNames(missing_),
                     "; ", remedy_);
    return wrong_.empty() ? absl::OkStatus()
                          : Invalid("init method ", method_, ": ", absl::StrJoin(wrong_, ", "),
                                    "; set a whole number");
  }

 private:
  const absl::string_view method_;
  const absl::string_view remedy_;
  const Variables& variables_;
  std::vector<absl::string_view> missing_;
  std::vector<std::string> wrong_;
};

// The store at `meeting.host` and `port`. `attempt` names this run of the ranks, in a store that
// outlives them.
absl::StatusOr<Meeting> AtMaster(Meeting meeting, int port, std::string attempt,
                                 const Variables& variables) {
  if (port < 1 || port > 65535)
    return Invalid("MASTER_PORT is ", port, "; give a number from 1 to 65535");
  meeting.port = static_cast<uint16_t>(port);
  if (IsMulticast(meeting.host))
    return Invalid("MASTER_ADDR is ", meeting.host,
                   ", a multicast address; give an address of rank 0's host");
  meeting.served = variables("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (meeting.served) meeting.attempt = std::move(attempt);
  DP_RETURN_IF_ERROR(CheckPlace(meeting));
  return meeting;
}

absl::StatusOr<Meeting> ReadEnvironment(const InitOptions& options, const Variables& variables) {
  EnvironmentReader reader(
      "env://", "start the program by dpctl run or torchrun, set them, or give another init method",
      variables);
  Meeting meeting{.where = Meeting::Where::kTcp};
  meeting.host = reader.Text("MASTER_ADDR");
  const int port = reader.Number("MASTER_PORT", std::nullopt);
  meeting.world_size = reader.Number("WORLD_SIZE", options.world_size);
  meeting.rank = reader.Number("RANK", options.rank);
  DP_RETURN_IF_ERROR(reader.status());
  return AtMaster(std::move(meeting), port,
                  absl::StrCat("attempt_", variables("TORCHELASTIC_RESTART_COUNT").value_or("0")),
                  variables);
}

// An option that the job decides may only repeat what the job says.
absl::Status CheckTold(absl::string_view option, const std::optional<int>& given, int of_job,
                       absl::string_view job) {
  if (!given || *given == of_job) return absl::OkStatus();
  return Invalid(absl::StrCat(option, " is ", *given, ", and job ", job, " says ", of_job),
                 "; leave it out, because dp:// takes it from the job");
}

// `place` is empty, or COORDINATOR/JOB.
absl::StatusOr<Meeting> ReadJob(const InitOptions& options, absl::string_view place,
                                const Variables& variables) {
  const std::string job = variables("DP_JOB").value_or("");
  if (job.empty())
    return Invalid("init method ", options.init_method,
                   " is for ranks of a job, and DP_JOB is not set; start the program by dpctl run, "
                   "or give another init method");
  const std::string own = absl::StrCat(variables("DP_COORDINATOR").value_or(""), "/", job);
  if (!place.empty() && place != own)
    return Invalid(absl::StrCat("init method ", options.init_method, " names another job than ",
                                "this rank's, dp://", own),
                   "; use dp://");
  EnvironmentReader reader(
      "dp://",
      "every rank of a command job starts with them: do not remove them, or give another init "
      "method",
      variables);
  Meeting meeting{.where = Meeting::Where::kTcp};
  meeting.host = reader.Text("MASTER_ADDR");
  const int port = reader.Number("MASTER_PORT", std::nullopt);
  meeting.world_size = reader.Number("DP_WORLD_SIZE", std::nullopt);
  meeting.rank = reader.Number("DP_RANK", std::nullopt);
  const std::string generation = reader.Text("DP_GENERATION");
  DP_RETURN_IF_ERROR(reader.status());
  DP_RETURN_IF_ERROR(CheckTold("world_size", options.world_size, meeting.world_size, job));
  DP_RETURN_IF_ERROR(CheckTold("rank", options.rank, meeting.rank, job));
  return AtMaster(std::move(meeting), port, absl::StrCat("generation_", generation), variables);
}

}  // namespace

Variables VariablesOfProcess() {
  return [](absl::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

std::string VariableNames(const std::vector<absl::string_view>& names) {
  return absl::StrCat("the environment variable", names.size() == 1 ? " " : "s ",
                      absl::StrJoin(names, ", "));
}

std::string WhyNoNumber(absl::string_view text, uint64_t max) {
  const absl::string_view digits = absl::StripPrefix(text, "-");
  const bool whole =
      !digits.empty() && std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit);
  return whole ? absl::StrCat("out of range, which ends at ", max) : "no number";
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
  if (absl::ConsumePrefix(&method, "dp://")) return ReadJob(options, method, variables);
  return Invalid("init method '", options.init_method,
                 "' is unknown; use env://, dp://, tcp://HOST:PORT or file:///PATH");
}

}  // namespace dp::library
