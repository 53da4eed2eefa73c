#include "client/dpctl/program_flags.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "client/dpctl/flag_types.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

constexpr size_t kNameBytesMax = 63;

// What the flag says, else what the variable does.
std::string Either(const std::string& flag, const char* variable) {
  const char* value = flag.empty() ? std::getenv(variable) : nullptr;
  return value != nullptr ? value : flag;
}

// Sets a field that is there, and lets the defaults know.
void Set(const std::string& value, const std::string& path, client::JobFile& job,
         std::string* field) {
  if (value.empty()) return;
  *field = value;
  job.source.Note(path, {});
}

}  // namespace

std::string NameAfter(const std::vector<std::string>& argv) {
  size_t program = 0;
  const std::string first = std::filesystem::path(argv.front()).filename().string();
  if (absl::StartsWith(first, "python")) {
    for (size_t i = argv.size() - 1; i > 0; --i)
      if (!absl::StartsWith(argv[i], "-") && absl::EndsWith(argv[i], ".py")) program = i;
  }
  std::string name;
  for (const char c : std::filesystem::path(argv[program]).stem().string()) {
    const char lower = absl::ascii_tolower(c);
    const bool good = absl::ascii_isalnum(lower);
    if (good) name += lower;
    if (!good && !name.empty() && name.back() != '-') name += '-';
  }
  name.resize(std::min(name.size(), kNameBytesMax));
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "command" : name;
}

void ProgramFlags::DefineFlags(CLI::App& app) {
  app_ = &app;
  const char* group = "A program behind '--'";
  app.add_option("--nnodes", nnodes_, "Workers that share the ranks, N or MIN:MAX")
      ->type_name("NODES")
      ->group(group);
  app.add_option("--nproc-per-node,--nproc_per_node", nproc_per_node_,
                 "Ranks on each: a number, gpu, cpu or auto")
      ->type_name("RANKS")
      ->group(group);
  app.add_option("--max-restarts,--max_restarts", max_restarts_,
                 "Restarts after the program failed; 0 by default")
      ->type_name("N")
      ->group(group);
  app.add_option("--name", name_, "Of the job; by default after the program")
      ->check(WhyEmpty)
      ->group(group);
  app.add_option("--env", env_, "Adds a variable; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE")
      ->group(group);
  app.add_option("--workdir", workdir_, "Where it runs, on every host; by default here")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--contract", contract_, "torchrun, tensorflow, jax, mpi or plain")->group(group);
  app.add_option("--store", store_, "Who serves the rendezvous store: relay, rank0 or direct")
      ->group(group);
  AddDuration(app, "--detect-within", detect_within_, "What silence counts as a failure")
      ->group(group);
}

std::string ProgramFlags::given() const {
  for (const char* flag : {"--nnodes", "--nproc-per-node", "--max-restarts", "--name", "--env",
                           "--workdir", "--contract", "--store", "--detect-within"})
    if (app_->count(flag) > 0) return flag;
  return "";
}

absl::StatusOr<client::JobFile> ProgramFlags::Job(const std::vector<std::string>& argv,
                                                  const std::string& working_dir) const {
  client::JobFile job{.spec = {}, .source = client::FieldSource("command line")};
  job.spec.set_api_version("dp/v1");
  job.spec.set_kind("Job");
  job.spec.set_name(name_.empty() ? NameAfter(argv) : name_);
  v1::CommandSpec& command = *job.spec.mutable_command();
  for (const std::string& word : argv) command.add_argv(word);
  command.set_working_dir((std::filesystem::path(working_dir) / workdir_).string());
  Set(Either(nnodes_, "PET_NNODES"), "command.nodes", job, command.mutable_nodes());
  Set(Either(nproc_per_node_, "PET_NPROC_PER_NODE"), "command.nprocPerNode", job,
      command.mutable_nproc_per_node());
  Set(contract_, "command.contract", job, command.mutable_contract());
  Set(store_, "command.store", job, command.mutable_store());
  const std::string restarts = Either(max_restarts_, "PET_MAX_RESTARTS");
  int number = 0;
  if (!restarts.empty() && !absl::SimpleAtoi(restarts, &number))
    return absl::InvalidArgumentError(
        absl::StrCat("--max-restarts is \"", restarts, "\"; expected a number"));
  command.set_max_restarts(number);
  if (detect_within_ > absl::ZeroDuration())
    *job.spec.mutable_detect_within() = ToProto(detect_within_);
  DP_RETURN_IF_ERROR(FillEnv(job.spec));
  return job;
}

absl::Status ProgramFlags::FillEnv(v1::JobSpec& spec) const {
  for (const std::string& variable : env_) {
    const std::pair<std::string, std::string> halves =
        absl::StrSplit(variable, absl::MaxSplits('=', 1));
    if (halves.first.empty() || !absl::StrContains(variable, '='))
      return absl::InvalidArgumentError(
          absl::StrCat("--env is \"", variable, "\"; expected NAME=VALUE"));
    (*spec.mutable_env())[halves.first] = halves.second;
  }
  return absl::OkStatus();
}

}  // namespace dp::ctl
