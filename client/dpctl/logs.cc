#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/job_view.h"
#include "client/dpctl/json_writer.h"
#include "client/dpctl/log_reader.h"
#include "client/dpctl/rank_labels.h"
#include "client/dpctl/verbs.h"

namespace dp::ctl {
namespace {

class Logs final : public Command {
 public:
  const char* name() const override { return "logs"; }
  const char* summary() const override { return "Print what the ranks of a job write"; }
  const char* example() const override {
    return "dpctl logs -f 7\n  dpctl logs 7 --rank 0,2-5 --tail 20 --stderr";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("JOB", job_, "Id, or name (the latest job of that name)")->required();
    app.add_flag("-f,--follow", follow_, "Go on until the job is over");
    app.add_option("--rank", ranks_, "Only these ranks, as 0,2-5")->type_name("RANKS");
    app.add_option("--generation", generation_, "Only this one; by default the latest")
        ->check(CLI::Range(1, std::numeric_limits<int>::max()));
    app.add_option("--tail", tail_, "Start at the last so many lines of each stream")
        ->check(CLI::Range(1, std::numeric_limits<int>::max()));
    app.add_flag("--stdout", stdout_, "Only standard output");
    app.add_flag("--stderr", stderr_, "Only standard error");
    app.add_flag("--metrics", metrics_,
                 "Only metrics, of which train jobs write one a line in JSON");
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(v1::ReadLogsRequest request, Request());
    DP_ASSIGN_OR_RETURN(v1::Job job, FindJob(context, job_));
    DP_RETURN_IF_ERROR(CheckRanks(request, job));
    DP_RETURN_IF_ERROR(ChooseGeneration(job, request));
    request.set_job(job.id());
    const absl::Duration patience = follow_ ? kPatience : context.flags().timeout;
    RankLabels labels(context, job.id());
    labels.Learn(job);
    LogReader reader(context, std::move(request), patience);
    while (!reader.at_end() && context.out().good()) {
      DP_ASSIGN_OR_RETURN(std::vector<LogLine> lines, reader.Next(follow_));
      for (const LogLine& line : lines) {
        if (labels.Enter(line.generation))
          context.err() << "dpctl: job " << job.id() << " goes on as generation " << line.generation
                        << std::endl;
        Print(line, labels, context);
      }
      context.out().flush();
    }
    return kSuccess;
  }

 private:
  static absl::Status CheckRanks(const v1::ReadLogsRequest& request, const v1::Job& job) {
    const int ranks = WorldSizeOf(job);
    for (const int rank : request.ranks())
      if (rank >= ranks)
        return absl::InvalidArgumentError(absl::StrCat("--rank: job ", job.id(), " has no rank ",
                                                       rank, "; its world size is ", ranks,
                                                       ", and ranks count from 0"));
    return absl::OkStatus();
  }

  // Following goes on with the generations that come.
  absl::Status ChooseGeneration(const v1::Job& job, v1::ReadLogsRequest& request) const {
    request.set_generation(generation_);
    if (generation_ == 0) request.set_since_generation(job.generation());
    if (generation_ <= static_cast<int64_t>(job.generation())) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("--generation: job ", job.id(), " has had ",
                                                   job.generation(), " so far, not ", generation_));
  }

  absl::StatusOr<v1::ReadLogsRequest> Request() const {
    v1::ReadLogsRequest request;
    if (!ranks_.empty()) {
      DP_ASSIGN_OR_RETURN(std::vector<int> ranks, ParseRanks(ranks_));
      request.mutable_ranks()->Assign(ranks.begin(), ranks.end());
    }
    const bool some = stdout_ || stderr_ || metrics_;
    if (stdout_ || !some) request.add_streams(v1::LOG_STREAM_STDOUT);
    if (stderr_ || !some) request.add_streams(v1::LOG_STREAM_STDERR);
    if (metrics_) request.add_streams(v1::LOG_STREAM_METRICS);
    request.set_tail_lines(tail_);
    return request;
  }

  static void Print(const LogLine& line, RankLabels& labels, Context& context) {
    if (context.flags().format != Format::kJson) {
      context.out() << labels.Of(line.rank) << ' ' << line.text << '\n';
      return;
    }
    JsonWriter json(context.out(), JsonWriter::Style::kOneLine);
    json.BeginObject();
    json.Field("generation", line.generation);
    json.Field("rank", line.rank);
    json.Field("host", labels.Host(line.rank));
    json.Field("stream", NameOf(line.stream));
    json.Field("line", line.text);
    json.EndObject();
  }

  std::string job_;
  std::string ranks_;
  bool follow_ = false;
  bool stdout_ = false;
  bool stderr_ = false;
  bool metrics_ = false;
  int tail_ = 0;
  int generation_ = 0;  // 0: the latest
};

}  // namespace

std::unique_ptr<Command> MakeLogs() { return std::make_unique<Logs>(); }

}  // namespace dp::ctl
