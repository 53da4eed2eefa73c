#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/parameter_sets.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/verbs/weights_file.h"
#include "client/dpctl/view/parameters_view.h"
#include "client/parameters.h"
#include "client/weights/kept_weights.h"

namespace dp::ctl {
namespace {

class WeightsPush final : public Command {
 public:
  const char* name() const override { return "push"; }
  const char* summary() const override {
    return "Give a safetensors file to the coordinator, as a new version of a set";
  }
  const char* example() const override {
    return "dpctl weights push gpt2.safetensors gpt2\n"
           "  dpctl weights push checkpoints/job-7-*/step-400-generation-1 gpt2";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("FILE", file_, "File of weights, or the directory of a checkpoint")->required();
    app.add_option("SET", set_, "The set's name; a set that is new belongs to you")->required();
    app.add_option("--step", step_, "The step of the training that made the weights")
        ->check(CLI::NonNegativeNumber)
        ->type_name("NUMBER");
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(const SetVersion to, ParseSetVersion(set_));
    if (to.version != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a push makes the next version, and cannot choose ", to.version, "; leave @",
                       to.version, " out"));
    }
    if (to.set.job != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the weights of job ", to.set.job,
                       " are those that it has trained; give a set a name of its own, as gpt2"));
    }
    DP_ASSIGN_OR_RETURN(const WeightsFile weights, OpenWeights(file_));
    // Tells what is wrong with the connection; a push is patient.
    DP_RETURN_IF_ERROR(ListVersions(context).status());
    client::Parameters parameters(context.coordinator(), context.pause());
    DP_ASSIGN_OR_RETURN(
        const v1::ParameterVersion pushed,
        client::PushWeights(parameters, to.set, weights.encoded(), {.step = step_}));
    Print(pushed, context);
    return kSuccess;
  }

 private:
  static void Print(const v1::ParameterVersion& pushed, Context& context) {
    if (context.flags().format == Format::kJson) {
      JsonWriter json(context.out());
      return WriteVersion(pushed, json);
    }
    context.out() << NameOf(pushed);
    if (context.flags().format == Format::kTable) {
      context.out() << " has " << pushed.tensor_count() << " tensors, " << pushed.bytes()
                    << " bytes";
    }
    context.out() << '\n';
  }

  std::string file_, set_;
  int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeWeightsPush() { return std::make_unique<WeightsPush>(); }

}  // namespace dp::ctl
