// Job files with `--set`, as dpctl reads them, and the same jobs as messages, as the coordinator
// checks them. A job that dpctl accepts is accepted by the coordinator, which changes nothing in it
// when it checks the job again. An error names the file, a flag or a place, and is not longer than
// the input but for a few lines.
//
// Lines that begin with "--set " at the head of the input are overrides; the rest is the file.

#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "client/job/job_file.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/job/job_check.h"
#include "proto/job/job_defaults.h"
#include "server/rpc/job_spec_check.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::job {
namespace {

using google::protobuf::util::MessageDifferencer;  // the bytes of a map have no order

constexpr char kFile[] = "job.yaml";
// A name that is wrong may stand in an error twice, escaped; the rest says what is allowed.
constexpr size_t kErrorBytesMax = 4096;

struct Input {
  std::vector<std::string> overrides;
  absl::string_view file;
};

Input Split(absl::string_view text) {
  Input input;
  while (absl::ConsumePrefix(&text, "--set ")) input.overrides.emplace_back(TakePart(&text, '\n'));
  input.file = text;
  return input;
}

void CheckError(const absl::Status& status, size_t input_bytes) {
  DP_CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  const absl::string_view message = status.message();
  DP_CHECK(absl::StartsWith(message, kFile) || absl::StartsWith(message, "--set "));
  DP_CHECK(message.size() <= kErrorBytesMax + 8 * input_bytes);
}

// The job has the names of its secrets, and nothing of where their values are.
void CheckSecrets(const client::JobFile& job) {
  DP_CHECK(std::ssize(job.secrets) == job.spec.secrets_size());
  for (int i = 0; i < job.spec.secrets_size(); ++i) {
    DP_CHECK(job.spec.secrets(i) == job.secrets[static_cast<size_t>(i)].name);
    DP_CHECK(!absl::StrContains(job.spec.secrets(i), '='));
  }
}

// A job whose every field dpctl has filled in.
void CheckAsMessage(const v1::JobSpec& spec) {
  const auto checked = server::CheckJobSpec(spec);
  // Only what dpctl itself resolves may be missing.
  DP_CHECK(checked.ok() || absl::StrContains(checked.status().message(), "workingDir") ||
           absl::StrContains(checked.status().message(), "nprocPerNode"));
  if (!checked.ok()) return;
  v1::JobSpec kept;
  DP_CHECK(kept.ParseFromString(checked->payload));
  const auto again = server::CheckJobSpec(kept);
  v1::JobSpec kept_again;
  DP_CHECK(again.ok() && kept_again.ParseFromString(again->payload));
  DP_CHECK(MessageDifferencer::Equals(kept, kept_again));
}

}  // namespace

void Run(absl::string_view text) {
  const Input input = Split(text);
  auto parsed = client::ParseJobFile(input.file, kFile, input.overrides);
  if (!parsed.ok()) return CheckError(parsed.status(), text.size());
  CheckSecrets(*parsed);
  v1::JobSpec& spec = parsed->spec;
  FillDefaults(parsed->source, spec);
  const v1::JobSpec filled = spec;
  FillDefaults(parsed->source, spec);
  DP_CHECK(MessageDifferencer::Equals(spec, filled));
  const auto no_data = [](const v1::DataSpec&) { return std::nullopt; };
  const absl::Status checked = CheckJob(spec, parsed->source, no_data);
  if (!checked.ok()) return CheckError(checked, text.size());
  CheckAsMessage(spec);
}

std::vector<std::string> Seeds() { return {}; }

}  // namespace dp::fuzz::job
