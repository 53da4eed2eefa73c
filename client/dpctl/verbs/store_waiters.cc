#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/verbs/job_store.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/job_view.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/table.h"
#include "dp/v1/store.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

std::string KindText(v1::Waiter::Kind kind) {
  switch (kind) {
    case v1::Waiter::KIND_KEY:
      return "key";
    case v1::Waiter::KIND_QUEUE:
      return "queue";
    case v1::Waiter::KIND_BARRIER:
      return "barrier";
    case v1::Waiter::KIND_CHANGE:
      return "change";
    case v1::Waiter::KIND_RENDEZVOUS:
      return "rendezvous";
    default:
      return "";
  }
}

class StoreWaiters final : public Command {
 public:
  const char* name() const override { return "waiters"; }
  const char* summary() const override { return "List who is blocked in a job's store, and why"; }
  const char* example() const override { return "dpctl store waiters 7"; }

  void DefineFlags(CLI::App& app) override {
    app.add_option("JOB", job_, "Id, or name (the latest job of that name)")->required();
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(const v1::Job job, FindJob(context, job_));
    v1::ListWaitersRequest request;
    request.set_job(job.id());
    DP_ASSIGN_OR_RETURN(const v1::ListWaitersResponse response,
                        context.Call(&v1::Store::Stub::ListWaiters, request));
    context.flags().format == Format::kJson ? PrintJson(response, context.out())
                                            : PrintTable(response, context);
    return kSuccess;
  }

 private:
  static void PrintJson(const v1::ListWaitersResponse& response, std::ostream& out) {
    JsonWriter json(out);
    json.BeginObject();
    json.Key("items");
    json.BeginArray();
    for (const v1::Waiter& waiter : response.waiters()) WriteWaiter(waiter, json);
    json.EndArray();
    json.EndObject();
  }

  static void WriteWaiter(const v1::Waiter& waiter, JsonWriter& json) {
    json.BeginObject();
    json.Field("kind", KindText(waiter.kind()));
    json.Field("key", KeyText(waiter.key()));
    json.Field("keysMissing", waiter.keys());
    json.Field("who", waiter.who());
    json.Field("waitingMs", absl::ToInt64Milliseconds(FromProto(waiter.waiting())));
    json.Field("arrived", waiter.arrived());
    json.Field("count", waiter.count());
    json.Key("missingRanks");
    json.BeginArray();
    for (const int rank : waiter.missing_ranks()) json.Int(rank);
    json.EndArray();
    json.EndObject();
  }

  static void PrintTable(const v1::ListWaitersResponse& response, Context& context) {
    Table table({"FOR", "KEY", "WHO", "WAITING", "ARRIVED", "MISSING RANKS"});
    for (const v1::Waiter& waiter : response.waiters()) {
      const std::string more =
          waiter.keys() > 1 ? absl::StrCat(" and ", waiter.keys() - 1, " more") : "";
      const std::string arrived =
          waiter.count() > 0 ? absl::StrCat(waiter.arrived(), " of ", waiter.count()) : "";
      table.Add({KindText(waiter.kind()), KeyText(waiter.key()) + more, waiter.who(),
                 AgeText(FromProto(waiter.waiting())), arrived,
                 absl::StrJoin(waiter.missing_ranks(), ",")});
    }
    table.Print(context.out(), !context.flags().no_headers);
  }

  std::string job_;
};

}  // namespace

std::unique_ptr<Command> MakeStoreWaiters() { return std::make_unique<StoreWaiters>(); }

}  // namespace dp::ctl
