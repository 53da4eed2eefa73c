#include <string>

#include "absl/strings/str_cat.h"
#include "base/data/new_file.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/parameter_sets.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/parameters_view.h"
#include "client/dpctl/view/printable.h"
#include "client/parameters.h"
#include "client/weights/kept_weights.h"

namespace dp::ctl {
namespace {

class WeightsPull final : public Command {
 public:
  const char* name() const override { return "pull"; }
  const char* summary() const override {
    return "Fetch weights that the coordinator keeps, as a safetensors file";
  }
  const char* example() const override {
    return "dpctl weights pull 7 model.safetensors\n"
           "  dpctl weights pull gpt2@3 gpt2.safetensors";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("SET", set_,
                   "A job (id or name) or a named set; its latest version, or that behind @")
        ->required();
    app.add_option("FILE", file_, "New file")->required();
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_RETURN_IF_ERROR(data::CheckIsNew(file_));
    DP_ASSIGN_OR_RETURN(const SetVersion found, FindSetVersion(context, set_));
    // Says what is wrong with the connection or the set; a pull is patient.
    DP_ASSIGN_OR_RETURN(const v1::ParameterVersion described, DescribeVersion(context, found));
    client::Parameters parameters(context.coordinator(), context.pause());
    DP_ASSIGN_OR_RETURN(const v1::ParameterVersion pulled,
                        client::PullWeights(parameters, found.set, described.version(), file_));
    if (context.flags().format == Format::kJson) {
      JsonWriter json(context.out());
      WriteVersion(pulled, json);
    } else {
      context.out() << Printable(file_);
      if (context.flags().format == Format::kTable) {
        context.out() << " has " << NameOf(pulled) << ": " << pulled.tensor_count() << " tensors, "
                      << pulled.bytes() << " bytes";
      }
      context.out() << '\n';
    }
    return kSuccess;
  }

 private:
  std::string set_, file_;
};

}  // namespace

std::unique_ptr<Command> MakeWeightsPull() { return std::make_unique<WeightsPull>(); }

}  // namespace dp::ctl
