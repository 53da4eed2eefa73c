#include "client/dpctl/verbs/join_token.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/host_port.h"
#include "base/labels.h"
#include "base/program/shell_word.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/printable.h"
#include "client/dpctl/view/time_text.h"
#include "dp/v1/workers.grpc.pb.h"

namespace dp::ctl {
namespace {

bool OnlyFromThisHost(const std::string& address) {
  const absl::StatusOr<HostPort> parts = ParseHostPort(address);
  return parts.ok() && (parts->host == "localhost" || parts->host == "::1" || parts->host == "::" ||
                        parts->host == "0.0.0.0" || absl::StartsWith(parts->host, "127."));
}

// A person's token goes through standard input, so that no list of processes shows it. A worker
// hides its token in its command line.
std::string LineFor(const JoinToken& token, const std::string& coordinator) {
  const std::string address = ShellWord(coordinator);
  if (token.role != "worker") {
    return absl::StrCat("dpctl --coordinator ", address, " login <<< ", token.token);
  }
  const std::string name =
      token.name.empty() ? "" : absl::StrCat(" --name ", ShellWord(token.name));
  return absl::StrCat("dp-worker --coordinator ", address, name, " --join ", token.token);
}

// The coordinator's certificate is from elsewhere, and no token leads to it.
void ExplainNoToken(Context& context) {
  context.out().flush();  // the note follows
  context.err() << "dpctl: there is no token, because the coordinator's certificate is from "
                   "elsewhere; DIR holds the person's own certificate, of an authority that the "
                   "coordinator trusts (--client-ca), and a ca.crt with the authority of the "
                   "coordinator's certificate\n";
}

void PrintLine(const JoinToken& token, Context& context) {
  const std::string& address = context.flags().coordinator;
  if (token.token.empty()) {
    context.out() << "dpctl --coordinator " << ShellWord(address) << " --credentials DIR\n";
    return ExplainNoToken(context);
  }
  context.out() << LineFor(token, address) << '\n';
  context.out().flush();  // the notes follow it
  context.err() << "dpctl: the token is valid until " << TimeText(token.expires_at) << '\n';
  if (OnlyFromThisHost(address)) {
    context.err() << "dpctl: " << address
                  << " reaches the coordinator from its own host only; on other hosts, replace "
                     "it by an address of that host\n";
  }
}

// The role says nothing where jobs run as a user who can administer the cluster.
void WarnOfWorkers(const std::string& person, Context& context) {
  const auto workers = context.Call(&v1::Workers::Stub::List, {});
  if (!workers.ok()) return;  // the token is there all the same
  std::vector<std::string> names;
  for (const v1::Worker& worker : workers->workers()) {
    if (worker.labels().contains(kAdminReadable)) names.push_back(Printable(worker.name()));
  }
  if (names.empty()) return;
  context.err() << "dpctl: jobs on " << absl::StrJoin(names, ", ")
                << " run as a user who can read an administrator's credential, so "
                << Printable(person)
                << " could become administrator; run dp-worker there as an account of its own, or "
                   "as root (--run-as)\n";
}

void PrintToken(const JoinToken& token, Context& context) {
  switch (context.flags().format) {
    case Format::kName:
      if (token.token.empty()) return ExplainNoToken(context);
      context.out() << token.token << '\n';
      return;
    case Format::kJson: {
      JsonWriter json(context.out());
      json.BeginObject();
      json.Field("role", token.role);
      json.TextOrNull("name", token.name);
      json.TextOrNull("token", token.token);
      token.token.empty() ? json.NullField("expiresAt")
                          : WriteTime("expiresAt", token.expires_at, json);
      json.EndObject();
      return;
    }
    case Format::kTable:
      PrintLine(token, context);
  }
}

}  // namespace

void PrintJoinToken(const JoinToken& token, Context& context) {
  PrintToken(token, context);
  if (token.role == "user") WarnOfWorkers(token.name, context);
}

}  // namespace dp::ctl
