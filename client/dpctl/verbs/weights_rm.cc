#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/parameter_sets.h"
#include "client/dpctl/request_id.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/printable.h"
#include "dp/v1/parameters.grpc.pb.h"

namespace dp::ctl {
namespace {

class WeightsRm final : public Command {
 public:
  const char* name() const override { return "rm"; }
  const char* summary() const override {
    return "Remove a version of weights that the coordinator keeps, or a whole set";
  }
  const char* example() const override { return "dpctl weights rm gpt2@3\n  dpctl weights rm 7"; }

  void DefineFlags(CLI::App& app) override {
    app.add_option("SET", set_, "A job's id or a named set: all its versions, or that behind @")
        ->required();
  }

  // A job's name stands for its latest job, which may have changed since: only numbers are jobs.
  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(const SetVersion of, ParseSetVersion(set_));
    v1::RemoveParametersRequest request;
    request.set_job(of.set.job);
    request.set_name(of.set.name);
    request.set_version(of.version);
    request.set_request_id(NewRequestId());
    const auto removed = context.Call(&v1::Parameters::Stub::Remove, request);
    if (absl::IsNotFound(removed.status()) && of.set.job == 0) {
      return absl::NotFoundError(
          absl::StrCat(removed.status().message(), "; the weights of a job have its number"));
    }
    DP_ASSIGN_OR_RETURN(const v1::RemoveParametersResponse response, removed);
    if (context.flags().format == Format::kJson) {
      JsonWriter json(context.out());
      json.BeginObject();
      json.Field("set", set_);
      json.Field("bytes", uint64_t{response.bytes()});
      json.EndObject();
      return kSuccess;
    }
    context.out() << Printable(set_);
    if (context.flags().format == Format::kTable) {
      context.out() << " is removed; " << response.bytes() << " bytes are free";
    }
    context.out() << '\n';
    return kSuccess;
  }

 private:
  std::string set_;
};

}  // namespace

std::unique_ptr<Command> MakeWeightsRm() { return std::make_unique<WeightsRm>(); }

}  // namespace dp::ctl
