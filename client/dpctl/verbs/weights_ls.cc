#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/parameter_sets.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/job_view.h"
#include "client/dpctl/view/parameters_view.h"
#include "client/dpctl/view/printable.h"
#include "client/dpctl/view/table.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

class WeightsLs final : public Command {
 public:
  const char* name() const override { return "ls"; }
  const char* summary() const override {
    return "List the weights that the coordinator keeps, or the tensors of a version";
  }
  const char* example() const override {
    return "dpctl weights ls\n  dpctl weights ls 7\n  dpctl weights ls gpt2@3";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option(
        "SET", set_,
        "A job (id or name) or a named set: all its versions. With @VERSION: its tensors");
  }

  absl::StatusOr<int> Run(Context& context) override {
    if (set_.empty()) return List(context, {});
    DP_ASSIGN_OR_RETURN(const SetVersion found, FindSetVersion(context, set_));
    return found.version == 0 ? List(context, found.set) : Describe(context, found);
  }

 private:
  static absl::StatusOr<int> List(Context& context, const client::ParameterSet& set) {
    DP_ASSIGN_OR_RETURN(const v1::ListParametersResponse response, ListVersions(context, set));
    switch (context.flags().format) {
      case Format::kName:
        for (const v1::ParameterVersion& one : response.versions()) {
          context.out() << NameOf(one) << '\n';
        }
        break;
      case Format::kJson:
        PrintJson(response, context.out());
        break;
      case Format::kTable:
        PrintVersions(response, context);
        break;
    }
    return kSuccess;
  }

  static void PrintJson(const v1::ListParametersResponse& response, std::ostream& out) {
    JsonWriter json(out);
    json.BeginObject();
    json.Key("items");
    json.BeginArray();
    for (const v1::ParameterVersion& one : response.versions()) WriteVersion(one, json);
    json.EndArray();
    json.EndObject();
  }

  static void PrintVersions(const v1::ListParametersResponse& response, Context& context) {
    const absl::Time now = context.surroundings().clock.Now();
    Table table({"SET", "STEP", "TENSORS", "BYTES", "AGE", "OWNER"});
    for (const v1::ParameterVersion& one : response.versions()) {
      table.Add({NameOf(one), one.step() == 0 ? "" : absl::StrCat(one.step()),
                 absl::StrCat(one.tensor_count()), absl::StrCat(one.bytes()),
                 AgeText(now - FromProto(one.at())), one.owner()});
    }
    table.Print(context.out(), !context.flags().no_headers);
  }

  static absl::StatusOr<int> Describe(Context& context, const SetVersion& of) {
    DP_ASSIGN_OR_RETURN(const v1::ParameterVersion version, DescribeVersion(context, of));
    switch (context.flags().format) {
      case Format::kName:
        for (const v1::ParameterTensor& tensor : version.tensors()) {
          context.out() << Printable(tensor.name()) << '\n';
        }
        break;
      case Format::kJson: {
        JsonWriter json(context.out());
        WriteVersion(version, json);
        break;
      }
      case Format::kTable:
        PrintTensors(version, context);
        break;
    }
    return kSuccess;
  }

  static void PrintTensors(const v1::ParameterVersion& version, Context& context) {
    Table table({"TENSOR", "TYPE", "SHAPE", "BYTES"});
    for (const v1::ParameterTensor& tensor : version.tensors()) {
      table.Add({tensor.name(), tensor.type(), absl::StrJoin(tensor.shape(), "x"),
                 absl::StrCat(tensor.bytes())});
    }
    table.Print(context.out(), !context.flags().no_headers);
  }

  std::string set_;
};

}  // namespace

std::unique_ptr<Command> MakeWeightsLs() { return std::make_unique<WeightsLs>(); }

}  // namespace dp::ctl
