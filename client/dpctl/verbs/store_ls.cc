#include <string>
#include <vector>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/verbs/job_store.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/json_writer.h"

namespace dp::ctl {
namespace {

class StoreLs final : public Command {
 public:
  const char* name() const override { return "ls"; }
  const char* summary() const override { return "List the keys of a job's store"; }
  const char* example() const override { return "dpctl store ls 7 gloo/"; }

  void DefineFlags(CLI::App& app) override {
    app.add_option("JOB", job_, "Id, or name (the latest job of that name)")->required();
    app.add_option("PREFIX", prefix_, "Only keys that begin so");
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(const auto opened, JobStore::Open(context, job_));
    DP_ASSIGN_OR_RETURN(const std::vector<std::string> keys, opened->store().ListKeys(prefix_));
    if (context.flags().format == Format::kJson) {
      PrintJson(keys, context.out());
    } else {
      for (const std::string& key : keys) context.out() << KeyText(key) << '\n';
    }
    return kSuccess;
  }

 private:
  static void PrintJson(const std::vector<std::string>& keys, std::ostream& out) {
    JsonWriter json(out);
    json.BeginObject();
    json.Key("items");
    json.BeginArray();
    for (const std::string& key : keys) json.String(KeyText(key));
    json.EndArray();
    json.EndObject();
  }

  std::string job_, prefix_;
};

}  // namespace

std::unique_ptr<Command> MakeStoreLs() { return std::make_unique<StoreLs>(); }

}  // namespace dp::ctl
