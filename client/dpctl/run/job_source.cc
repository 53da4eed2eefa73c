#include "client/dpctl/run/job_source.h"

#include <filesystem>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/request_id.h"
#include "client/job/job_file.h"
#include "client/job/plugin_file.h"
#include "dp/v1/jobs.grpc.pb.h"
#include "proto/job/job_check.h"
#include "proto/job/job_defaults.h"
#include "proto/job/job_spec.h"

namespace dp::ctl {
namespace {

void MakeAbsolute(const std::filesystem::path& from, std::string& path) {
  std::filesystem::path normal = (from / path).lexically_normal();
  const bool slash_at_end = !normal.has_filename() && normal.has_relative_path();
  path = (slash_at_end ? normal.parent_path() : normal).string();
}

void MakeAbsolute(const std::filesystem::path& from, v1::ArrayFilesSpec& files) {
  for (std::string* path :
       {files.mutable_inputs(), files.mutable_labels(), files.mutable_targets()}) {
    if (!path->empty()) MakeAbsolute(from, *path);
  }
}

void MakeAbsolute(const std::filesystem::path& from, v1::DataSpec& data) {
  if (!data.dir().empty()) MakeAbsolute(from, *data.mutable_dir());
  for (std::string& file : *data.mutable_train()) MakeAbsolute(from, file);
  for (std::string& file : *data.mutable_test()) MakeAbsolute(from, file);
  if (data.arrays().has_train()) MakeAbsolute(from, *data.mutable_arrays()->mutable_train());
  if (data.has_bpe()) {
    MakeAbsolute(from, *data.mutable_bpe()->mutable_vocab());
    MakeAbsolute(from, *data.mutable_bpe()->mutable_merges());
  }
  if (data.arrays().has_test()) MakeAbsolute(from, *data.mutable_arrays()->mutable_test());
}

void MakeAbsolute(const std::filesystem::path& from, v1::ModelSpec& model) {
  if (!model.plugin().library().empty())
    MakeAbsolute(from, *model.mutable_plugin()->mutable_library());
  for (v1::LayerSpec& layer : *model.mutable_layers()) {
    if (!layer.plugin().library().empty())
      MakeAbsolute(from, *layer.mutable_plugin()->mutable_library());
  }
}

// The coordinator accepts such stores, which have no effect: dpctl of earlier releases fills them
// in.
absl::Status CheckStore(const client::JobFile& job) {
  const v1::CommandSpec& command = job.spec.command();
  if (!job.source.Given("command.store") || command.store() == "program" || MeetsAtStore(command))
    return absl::OkStatus();
  return job.source.Error(
      "command.store",
      absl::StrCat("command.store is \"", command.store(), "\", but ranks of contract ",
                   command.contract(), " have no store that dp serves; leave the store out"));
}

}  // namespace

void CompletePaths(const std::filesystem::path& from, v1::TrainSpec& train) {
  MakeAbsolute(from, *train.mutable_data());
  if (train.has_model()) MakeAbsolute(from, *train.mutable_model());
  if (!train.trace().empty()) MakeAbsolute(from, *train.mutable_trace());
  if (!train.checkpoint().dir().empty())
    MakeAbsolute(from, *train.mutable_checkpoint()->mutable_dir());
  // A path with a slash at its end names no file, and is rejected later.
  const auto is_file = [](const std::string& path) { return !path.empty() && path.back() != '/'; };
  if (is_file(train.output().weights()))
    MakeAbsolute(from, *train.mutable_output()->mutable_weights());
  if (is_file(train.init().weights())) MakeAbsolute(from, *train.mutable_init()->mutable_weights());
}

void JobSource::DefineFlags(CLI::App& app) {
  verb_ = app.get_name();
  flags_.DefineFlags(app);
  secrets_.DefineFlags(app);
  if (launching_ != Launching::kDp) return;  // torchrun knows no job files
  app.add_option("FILE", file_, "Job file, YAML or JSON (docs/job-file.md); or a script, as x.py");
  app.add_option("--set", overrides_, "Change a field, as train.epochs=3; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name("PATH=VALUE");
}

std::vector<std::string> JobSource::Usages() const {
  if (launching_ != Launching::kDp) return {"SCRIPT [ARGS...]", "-m MODULE [ARGS...]"};
  return {"FILE", "SCRIPT.py [ARGS...]", "-- PROGRAM [ARGS...]"};
}

absl::StatusOr<bool> JobSource::StartsProgram(const std::string& word,
                                              const std::vector<std::string>& before) const {
  DP_RETURN_IF_ERROR(EnvFlags::CheckNext(word, before));
  return flags_.StartsProgram(word, before);
}

std::string JobSource::WhyLeftOver(const std::string& word) const {
  if (file_.empty()) return "";
  const std::string ending = std::filesystem::path(file_).extension().string();
  if (ending == ".yaml" || ending == ".yml" || ending == ".json")
    return absl::StrCat("'", file_, "' is read as a job file, and '", word,
                        "' is one word too many; change a field with --set, as --set ranks=2");
  return absl::StrCat("'", file_, "' is read as a job file, and '", word,
                      "' is one word too many; ", ProgramHint());
}

std::string JobSource::ProgramHint() const {
  return absl::StrCat("write a command line behind '--': dpctl ", verb_, " -- ", file_, " ...");
}

bool JobSource::TakeProgram(std::vector<std::string> argv) {
  program_ = std::move(argv);
  return !program_.empty();
}

absl::StatusOr<client::JobFile> JobSource::Read(const Context& context) const {
  const bool file = !file_.empty();
  if (file && !program_.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("job file '", file_, "' and a program behind '--'; give one of them"));
  DP_RETURN_IF_ERROR(flags_.torchrun().Check());
  if (!file && program_.empty())
    return absl::InvalidArgumentError(absl::StrCat(launching_ == Launching::kDp
                                                       ? "give a job file, or a program: dpctl "
                                                       : "give a program: dpctl ",
                                                   verb_, " --nproc-per-node 2 train.py"));
  if (!file && !overrides_.empty())
    return absl::InvalidArgumentError("--set changes a job file; a program has flags");
  if (!file) {
    for (const std::string& line : flags_.Notes(lines_shown_))
      context.surroundings().terminal.err << "dpctl: " << line << '\n';
    return flags_.Job(program_, context.surroundings().working_dir);
  }
  if (!flags_.given().empty())
    return absl::InvalidArgumentError(absl::StrCat(
        flags_.given(), " is for a program, and '", file_,
        "' is read as a job file; change that with --set, or write a program behind '--'"));
  absl::StatusOr<client::JobFile> job =
      client::ReadJobFile(file_, overrides_, context.surroundings().interrupts.descriptor());
  // dpctl's NotFound is about jobs; a missing file is a wrong argument.
  if (!absl::IsNotFound(job.status())) return job;
  const std::filesystem::path path = file_;
  const bool program = path.has_filename() && !path.has_extension();
  return absl::InvalidArgumentError(absl::StrCat(
      job.status().message(), program ? absl::StrCat("; ", ProgramHint()) : std::string()));
}

absl::StatusOr<client::JobFile> JobSource::Load(const Context& context, bool ranks_run_here) const {
  DP_ASSIGN_OR_RETURN(client::JobFile job, Read(context));
  DP_RETURN_IF_ERROR(secrets_.Apply(job));
  const std::filesystem::path here = context.surroundings().working_dir;
  if (job.spec.has_command())
    MakeAbsolute(here, *job.spec.mutable_command()->mutable_working_dir());
  if (job.spec.has_train() && ranks_run_here) CompletePaths(here, *job.spec.mutable_train());
  FillDefaults(job.source, job.spec);
  DP_RETURN_IF_ERROR(CheckJob(job.spec, job.source, context.surroundings().form_of_samples));
  DP_RETURN_IF_ERROR(CheckStore(job));
  DP_RETURN_IF_ERROR(client::CheckPluginFiles(job, ranks_run_here));
  return job;
}

namespace {

void WarnOfDirectStore(const v1::JobSpec& spec, std::ostream& err) {
  if (spec.command().store() == "direct")
    err << "dpctl: a store that the coordinator serves does not survive its restart; relay does\n";
}

}  // namespace

absl::StatusOr<v1::SubmitRequest> RequestFor(Context& context, const client::JobFile& job) {
  v1::SubmitRequest request;
  DP_RETURN_IF_ERROR(AddSecrets(context, job, request));
  WarnOfDirectStore(job.spec, context.err());
  request.set_request_id(NewRequestId());
  request.set_user(context.surroundings().user);
  *request.mutable_spec() = job.spec;
  return request;
}

absl::StatusOr<v1::Job> SubmitJob(Context& context, const v1::SubmitRequest& request) {
  DP_ASSIGN_OR_RETURN(v1::SubmitResponse response, context.Call(&v1::Jobs::Stub::Submit, request));
  return std::move(*response.mutable_job());
}

}  // namespace dp::ctl
