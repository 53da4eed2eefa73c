#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/run/model_source.h"
#include "client/dpctl/run/trainer_call.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/json_writer.h"

namespace dp::ctl {
namespace {

class Eval final : public Command {
 public:
  const char* name() const override { return "eval"; }
  const char* summary() const override {
    return "Evaluate a trained model on a test set, on this machine";
  }
  const char* example() const override {
    return "dpctl eval 7\n"
           "  dpctl eval final.safetensors --data /data/fashion-mnist\n"
           "  dpctl eval pytorch.safetensors --model job.yaml --data /data/cifar10 -o json";
  }

  void DefineFlags(CLI::App& app) override {
    source_.DefineFlags(app);
    v1::DataPlaces& places = *request_.mutable_places();
    app.add_option("--data", *places.mutable_data(),
                   "Directory or file of the test set; default: the job's")
        ->type_name("PATH");
    app.add_option("--labels", *places.mutable_labels(), "NPY file, where --data is one of inputs")
        ->type_name("FILE");
    app.add_option("--targets", *places.mutable_targets(),
                   "NPY file, where --data is one of inputs")
        ->type_name("FILE");
    DefineBpeFlags(app, places);
  }

  bool NeedsCoordinator() const override { return !source_.NamesFile(); }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(*request_.mutable_weights(), source_.Find(context));
    CompletePlaces(context, *request_.mutable_places());
    DP_ASSIGN_OR_RETURN(const auto response,
                        CallTrainer<v1::EvaluateResponse>(context, "evaluate", request_));
    if (context.flags().format == Format::kJson) {
      PrintJson(response, context.out());
    } else {
      PrintText(response, context.out());
    }
    return kSuccess;
  }

 private:
  static void PrintText(const v1::EvaluateResponse& found, std::ostream& out) {
    const auto line = [&](const char* name, bool known, double number) {
      if (known) out << absl::StrFormat("%-20s%.6g\n", name, number);
    };
    out << absl::StrFormat("%-20s%d\n", "samples", found.samples());
    line("loss", true, found.loss());
    line("accuracy", found.has_accuracy(), found.accuracy());
    line("top-5 accuracy", found.has_top5_accuracy(), found.top5_accuracy());
    line("perplexity", found.has_perplexity(), found.perplexity());
    line("mean absolute error", found.has_mean_absolute_error(), found.mean_absolute_error());
    line("R2", found.has_r2(), found.r2());
  }

  void PrintJson(const v1::EvaluateResponse& found, std::ostream& out) const {
    JsonWriter json(out);
    const auto field = [&](const char* name, bool known, double number) {
      json.Key(name);
      known ? json.Exact(number) : json.Null();
    };
    json.BeginObject();
    json.Field("weights", request_.weights().path());
    json.Field("samples", found.samples());
    field("loss", true, found.loss());
    field("accuracy", found.has_accuracy(), found.accuracy());
    field("top5Accuracy", found.has_top5_accuracy(), found.top5_accuracy());
    field("perplexity", found.has_perplexity(), found.perplexity());
    field("meanAbsoluteError", found.has_mean_absolute_error(), found.mean_absolute_error());
    field("r2", found.has_r2(), found.r2());
    json.Key("confusionMatrix");
    WriteMatrix(found, json);
    json.Field("precision", found.precision());
    json.EndObject();
  }

  // Row by row; null if the job does not take it.
  static void WriteMatrix(const v1::EvaluateResponse& found, JsonWriter& json) {
    const int cells = found.confusion_matrix_size();
    if (cells == 0) return json.Null();
    const int classes = static_cast<int>(std::lround(std::sqrt(cells)));
    json.BeginArray();
    for (int row = 0; row < classes; ++row) {
      json.BeginArray();
      for (int column = 0; column < classes; ++column) {
        json.Int(found.confusion_matrix(row * classes + column));
      }
      json.EndArray();
    }
    json.EndArray();
  }

  ModelSource source_;
  v1::EvaluateRequest request_;
};

}  // namespace

std::unique_ptr<Command> MakeEval() { return std::make_unique<Eval>(); }

}  // namespace dp::ctl
