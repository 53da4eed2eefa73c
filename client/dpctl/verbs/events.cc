#include <optional>
#include <string>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/event_view.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/printable.h"
#include "client/dpctl/view/time_text.h"
#include "client/long_poll.h"
#include "dp/v1/jobs.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

class Events final : public Command {
 public:
  const char* name() const override { return "events"; }
  const char* summary() const override {
    return "Show what happened to jobs and workers, and who caused it";
  }
  const char* example() const override {
    return "dpctl events 7\n  dpctl events -w -o json | jq 'select(.kind == \"failed\")'";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("JOB", job_, "Id or name; by default all jobs, the workers and access");
    app.add_flag("-w,--watch", watch_, "Also show new events; with JOB, until the job is over");
    AddNumber(app, "--since", since_, "Only events after this number");
  }

  absl::StatusOr<int> Run(Context& context) override {
    v1::WatchEventsRequest request;
    request.set_since(since_);
    if (job_.has_value()) {
      DP_ASSIGN_OR_RETURN(const v1::Job job, FindJob(context, *job_));
      request.set_job(job.id());
    }
    bool first = true, told = false, waits = watch_;
    while (true) {
      // Past events are there at once.
      const absl::Duration poll = first || !waits ? absl::ZeroDuration() : client::kLongPoll;
      const absl::StatusOr<v1::WatchEventsResponse> asked = Ask(context, request, poll);
      if (!asked.ok() && told && request.job() != 0)
        return WhileFollowed(request.job(), asked.status());
      if (!asked.ok()) return asked.status();
      const v1::WatchEventsResponse& response = *asked;
      if (!told && since_ > 0 && response.oldest() > since_ + 1)
        context.err() << "dpctl: events before number " << response.oldest() << " are gone\n";
      told = true;
      for (const v1::Event& event : response.events()) Print(event, context);
      context.out().flush();
      // Nobody reads the output any more.
      if (!context.out()) return kSuccess;
      // An answer without events may stand for events that the caller may not see.
      const bool more = response.next_since() > request.since();
      if (!waits && !more) return kSuccess;
      // Once the job is over, one more read returns all its events; no event follows.
      if (waits && request.job() != 0) waits = GoesOn(context, request.job());
      request.set_since(response.next_since());
      first = first && more;
    }
  }

 private:
  // Also true if nobody can say.
  static bool GoesOn(Context& context, uint64_t id) {
    const absl::StatusOr<v1::Job> job = GetJob(context, id);
    return job.ok() ? !Finished(job->state()) : !absl::IsNotFound(job.status());
  }

  absl::StatusOr<v1::WatchEventsResponse> Ask(Context& context, v1::WatchEventsRequest& request,
                                              absl::Duration poll) const {
    *request.mutable_timeout() = ToProto(poll);
    const auto attempt = [&](absl::Duration in) {
      const absl::Duration deadline = watch_ ? poll + client::kAnswerSlack : in;
      return context.coordinator().Call(&v1::Jobs::Stub::WatchEvents, request, deadline);
    };
    return context.CallFor(watch_ ? kPatience : context.flags().timeout, attempt);
  }

  static void Print(const v1::Event& event, Context& context) {
    switch (context.flags().format) {
      case Format::kName:
        context.out() << event.number() << '\n';
        return;
      case Format::kJson:
        return PrintJson(event, context.out());
      case Format::kTable:
        context.out() << event.number() << "  " << TimeText(FromProto(event.at())) << "  "
                      << ObjectText(event) << "  " << event.kind()
                      << (event.text().empty() ? "" : "  ") << Printable(event.text())
                      << (event.actor().empty() ? "" : "  by ") << Printable(event.actor()) << '\n';
    }
  }

  static void PrintJson(const v1::Event& event, std::ostream& out) {
    JsonWriter json(out, JsonWriter::Style::kOneLine);
    json.BeginObject();
    json.Field("number", event.number());
    WriteTime("at", FromProto(event.at()), json);
    json.Key("job");
    event.job() == 0 ? json.Null() : json.UInt(event.job());
    json.TextOrNull("worker", event.worker());
    json.Field("kind", event.kind());
    json.TextOrNull("text", event.text());
    json.TextOrNull("actor", event.actor());
    json.EndObject();
  }

  std::optional<std::string> job_;
  bool watch_ = false;
  uint64_t since_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeEvents() { return std::make_unique<Events>(); }

}  // namespace dp::ctl
