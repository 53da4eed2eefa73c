#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/checkpoint_view.h"
#include "client/dpctl/view/job_view.h"
#include "client/dpctl/view/printable.h"
#include "client/dpctl/view/table.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

class Checkpoints final : public Command {
 public:
  const char* name() const override { return "checkpoints"; }
  const char* summary() const override {
    return "List the checkpoints that a job can go on from, the latest first";
  }
  const char* example() const override {
    return "dpctl checkpoints 7\n  dpctl submit job.yaml --resume 7@latest";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("JOB", job_, "Id, or name (the latest job of that name)")->required();
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(const v1::Job job, FindJob(context, job_));
    DP_ASSIGN_OR_RETURN(const v1::ListCheckpointsResponse response,
                        ListCheckpoints(context, job.id()));
    switch (context.flags().format) {
      case Format::kName:
        for (const v1::Checkpoint& one : response.checkpoints()) {
          context.out() << job.id() << '@' << one.step() << '\n';
        }
        break;
      case Format::kJson:
        PrintJson(response, context.out());
        break;
      case Format::kTable:
        PrintTable(response, context);
        break;
    }
    return kSuccess;
  }

 private:
  static void PrintJson(const v1::ListCheckpointsResponse& response, std::ostream& out) {
    JsonWriter json(out);
    json.BeginObject();
    json.Key("items");
    json.BeginArray();
    for (const v1::Checkpoint& one : response.checkpoints()) WriteCheckpoint(one, json);
    json.EndArray();
    json.EndObject();
  }

  static void PrintTable(const v1::ListCheckpointsResponse& response, Context& context) {
    const absl::Time now = context.surroundings().clock.Now();
    const bool any_best = absl::c_any_of(
        response.checkpoints(), [](const v1::Checkpoint& one) { return !one.best().empty(); });
    std::vector<std::string> headers = {"STEP", "GENERATION", "AGE", "BYTES", "PATH"};
    if (any_best) headers.insert(headers.end() - 1, "BEST");
    Table table(headers);
    for (const v1::Checkpoint& one : response.checkpoints()) {
      std::vector<std::string> row = {absl::StrCat(one.step()), absl::StrCat(one.generation()),
                                      AgeText(now - FromProto(one.at())), absl::StrCat(one.bytes()),
                                      one.path()};
      if (any_best) row.insert(row.end() - 1, one.best().empty() ? "-" : Printable(one.best()));
      table.Add(row);
    }
    table.Print(context.out(), !context.flags().no_headers);
  }

  std::string job_;
};

}  // namespace

std::unique_ptr<Command> MakeCheckpoints() { return std::make_unique<Checkpoints>(); }

}  // namespace dp::ctl
