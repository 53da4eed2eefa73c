#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/job_view.h"
#include "client/dpctl/view/log_dedup.h"
#include "client/dpctl/view/log_printer.h"
#include "client/dpctl/view/log_reader.h"
#include "client/dpctl/view/outstanding_output.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

class Logs final : public Command {
 public:
  const char* name() const override { return "logs"; }
  const char* summary() const override { return "Print what the ranks of a job write"; }
  const char* example() const override {
    return "dpctl logs -f 7\n  dpctl logs 7 --rank 0,2-5 --tail 20 --stderr\n"
           "  dpctl logs 7 --since 5m --timestamps --dedup";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("JOB", job_, "Id, or name (the latest job of that name)")->required();
    app.add_flag("-f,--follow", follow_, "Go on until the job is over");
    app.add_option("--rank", ranks_, "Only these ranks, as 0,2-5")
        ->type_name("RANKS")
        ->check(WhyEmpty);
    app.add_option("--generation", generation_,
                   "Only this generation, or 'all'; by default the latest")
        ->check(WrongGeneration)
        ->type_name("NUMBER|all|latest");
    app.add_option("--tail", tail_, "Start at the last so many lines of each stream")
        ->check(CLI::Range(1, std::numeric_limits<int>::max()));
    AddSince(app, "--since", since_,
             "Start at lines of so long ago, as 5m, or of a time, as 2026-11-21T19:10:00Z");
    app.add_flag("--timestamps", timestamps_, "Before each line, when its worker found it");
    app.add_flag("--dedup", dedup_,
                 "Equal lines of several ranks once, as [0-3]; -f waits 1s for the others");
    app.add_flag("--raw", raw_,
                 "Every byte as it is, also to a terminal, where other control characters than "
                 "colours show as \\x1b otherwise");
    app.add_flag("--stdout", stdout_, "Only standard output");
    app.add_flag("--stderr", stderr_, "Only standard error");
    app.add_flag("--metrics", metrics_, "Only metrics: one JSON object a line, from train jobs");
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(v1::ReadLogsRequest request, Request(context));
    DP_ASSIGN_OR_RETURN(v1::Job job, FindJob(context, job_));
    DP_RETURN_IF_ERROR(ChooseGeneration(job, request));
    DP_RETURN_IF_ERROR(CheckRanks(request, job));
    request.set_job(job.id());
    const absl::Duration patience = follow_ ? kPatience : context.flags().timeout;
    const size_t ranks =
        request.ranks().empty() ? static_cast<size_t>(WorldSizeOf(job)) : RanksOf(request).size();
    // Ranks cannot share pieces of progress bars.
    LogReader reader(context, std::move(request), patience,
                     dedup_ ? LogLines::Bars::kWhole : LogLines::Bars::kAtOnce);
    LogPrinter printer(context, job, {.timestamps = timestamps_, .raw = raw_});
    DP_RETURN_IF_ERROR(dedup_ ? ShowShared(context, reader, printer, ranks)
                              : Show(context, reader, printer));
    printer.EndLine();
    WarnOfOutstanding(job.id(), std::max(job.generation(), printer.generation()), reader.last(),
                      context.err());
    return kSuccess;
  }

 private:
  // How long a line waits for other ranks to write the same while somebody follows.
  static constexpr absl::Duration kHold = absl::Seconds(1);

  absl::Status Show(Context& context, LogReader& reader, LogPrinter& printer) const {
    while (!reader.at_end() && context.out().good()) {
      DP_ASSIGN_OR_RETURN(std::vector<LogLine> lines, reader.Next(follow_));
      for (const LogLine& line : lines) printer.Print(line);
      context.out().flush();
    }
    return absl::OkStatus();
  }

  absl::Status ShowShared(Context& context, LogReader& reader, LogPrinter& printer,
                          size_t ranks) const {
    const Clock& clock = context.surroundings().clock;
    LogDedup dedup(ranks, follow_ ? kHold : absl::InfiniteDuration());
    while (!reader.at_end() && context.out().good()) {
      const absl::Duration held = std::max(dedup.next_at() - clock.Now(), absl::ZeroDuration());
      DP_ASSIGN_OR_RETURN(std::vector<LogLine> lines,
                          reader.Next(follow_, std::min(held, client::kLongPoll)));
      for (LogLine& line : lines) {
        printer.Learn(line);
        dedup.Add(std::move(line), clock.Now());
      }
      const auto due = reader.at_end() ? dedup.TakeAll() : dedup.Take(clock.Now());
      for (const SharedLine& shared : due) printer.Print(shared);
      context.out().flush();
    }
    return absl::OkStatus();
  }

  // Empty, or the error.
  static std::string WrongGeneration(const std::string& text) {
    int number = 0;
    if (text == kAll || text == kLatest || (absl::SimpleAtoi(text, &number) && number > 0))
      return "";
    return absl::StrCat("'", text, "' is no generation; expected a number from 1 on, ", kAll,
                        " or ", kLatest);
  }

  static std::set<int> RanksOf(const v1::ReadLogsRequest& request) {
    return {request.ranks().begin(), request.ranks().end()};
  }

  // An earlier generation of a job that shrank had more ranks; the job does not record how many.
  static absl::Status CheckRanks(const v1::ReadLogsRequest& request, const v1::Job& job) {
    const bool earlier = job.generation() > 1 && request.generation() != job.generation() &&
                         request.since_generation() < job.generation();
    if (earlier) return absl::OkStatus();
    const int ranks = WorldSizeOf(job);
    for (const int rank : request.ranks())
      if (rank >= ranks)
        return absl::InvalidArgumentError(absl::StrCat("--rank: job ", job.id(), " has no rank ",
                                                       rank, "; its world size is ", ranks,
                                                       ", and ranks count from 0"));
    return absl::OkStatus();
  }

  // With --follow, later generations are read too.
  absl::Status ChooseGeneration(const v1::Job& job, v1::ReadLogsRequest& request) const {
    if (generation_ == kAll) return absl::OkStatus();
    if (generation_ == kLatest) {
      request.set_since_generation(job.generation());
      return absl::OkStatus();
    }
    uint64_t generation = 0;
    (void)absl::SimpleAtoi(generation_, &generation);  // checked with the flags
    request.set_generation(generation);
    if (generation <= job.generation()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("--generation: job ", job.id(), " has had ",
                                                   job.generation(), " so far, not ", generation));
  }

  absl::StatusOr<v1::ReadLogsRequest> Request(Context& context) const {
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
    request.set_with_times(timestamps_ || context.flags().format == Format::kJson);
    if (!since_.empty()) {
      DP_ASSIGN_OR_RETURN(const absl::Time since,
                          ReadSince(since_, context.surroundings().clock.Now()));
      *request.mutable_since() = ToProto(std::max(since, absl::UnixEpoch()));
    }
    return request;
  }

  std::string job_;
  std::string ranks_;
  bool follow_ = false;
  bool stdout_ = false;
  bool stderr_ = false;
  bool metrics_ = false;
  int tail_ = 0;
  static constexpr char kAll[] = "all";
  static constexpr char kLatest[] = "latest";
  std::string generation_ = kLatest;
  std::string since_;
  bool timestamps_ = false;
  bool dedup_ = false;
  bool raw_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeLogs() { return std::make_unique<Logs>(); }

}  // namespace dp::ctl
