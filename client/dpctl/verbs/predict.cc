#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/run/model_source.h"
#include "client/dpctl/run/trainer_call.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/table.h"
#include "client/dpctl/view/terminal_text.h"

namespace dp::ctl {
namespace {

constexpr int kClassesShown = 5;
constexpr int kTokensDefault = 100;
constexpr int kTokensMax = 1'000'000;

std::string ClassText(const v1::ClassProbability& one) {
  return one.name().empty() ? absl::StrCat(one.number()) : one.name();
}

// Shows the outputs of a model for all inputs.
class PredictionView {
 public:
  PredictionView(const v1::PredictRequest& request, const v1::PredictResponse& response)
      : request_(request), response_(response) {
    for (const v1::Prediction& one : response.predictions()) {
      if (one.sample() > 0) several_.insert(one.input());
      named_ |= one.classes_size() > 0 && !one.classes(0).name().empty();
    }
  }

  void PrintTable(Context& context) const {
    const bool classes = response_.predictions(0).classes_size() > 0;
    Table table(!classes ? Headings{"INPUT", "VALUES"}
                : named_ ? Headings{"INPUT", "CLASS", "NAME", "PROBABILITY"}
                         : Headings{"INPUT", "CLASS", "PROBABILITY"});
    for (const v1::Prediction& one : response_.predictions()) {
      if (classes) {
        AddClasses(one, table);
      } else {
        table.Add({InputOf(one), absl::StrJoin(one.values(), " ")});
      }
    }
    table.Print(context.out(), !context.flags().no_headers);
  }

  // The likeliest class of each sample alone, or the values.
  void PrintNames(std::ostream& out) const {
    for (const v1::Prediction& one : response_.predictions()) {
      out << (one.classes_size() > 0 ? ClassText(one.classes(0)) : absl::StrJoin(one.values(), " "))
          << '\n';
    }
  }

  void PrintJson(std::ostream& out) const {
    JsonWriter json(out);
    json.BeginObject();
    json.Key("items");
    json.BeginArray();
    for (const v1::Prediction& one : response_.predictions()) WriteOne(one, json);
    json.EndArray();
    json.EndObject();
  }

  // Inputs with what follows them.
  void PrintTexts(Context& context) const {
    const bool alone = context.flags().format == Format::kName;
    for (const v1::Prediction& one : response_.predictions()) {
      const std::string text =
          absl::StrCat(alone ? std::string() : request_.inputs(one.input()), one.text());
      context.out() << (context.surroundings().terminal.out_is_tty ? TerminalText(text) : text)
                    << '\n';
    }
  }

 private:
  using Headings = std::vector<std::string>;

  // An input of several samples is shown with their numbers.
  std::string InputOf(const v1::Prediction& one) const {
    const std::string& input = request_.inputs(one.input());
    return several_.contains(one.input()) ? absl::StrCat(input, "[", one.sample(), "]") : input;
  }

  void AddClasses(const v1::Prediction& one, Table& table) const {
    for (const v1::ClassProbability& each : one.classes()) {
      Headings cells = {InputOf(one), absl::StrCat(each.number())};
      if (named_) cells.push_back(each.name());
      cells.push_back(absl::StrFormat("%.4f", each.probability()));
      table.Add(std::move(cells));
    }
  }

  void WriteOne(const v1::Prediction& one, JsonWriter& json) const {
    json.BeginObject();
    json.Field("input", request_.inputs(one.input()));
    json.Field("sample", one.sample());
    if (one.tokens() > 0 || !one.text().empty()) {
      json.Field("text", one.text());
      json.Field("tokens", one.tokens());
    } else if (one.classes_size() > 0) {
      json.Key("classes");
      json.BeginArray();
      for (const v1::ClassProbability& each : one.classes()) {
        json.BeginObject();
        json.Field("class", each.number());
        json.TextOrNull("name", each.name());
        json.Key("probability");
        json.Exact(each.probability());
        json.EndObject();
      }
      json.EndArray();
    } else {
      json.Key("values");
      json.BeginArray();
      for (const double value : one.values()) json.Exact(value);
      json.EndArray();
    }
    json.EndObject();
  }

  const v1::PredictRequest& request_;
  const v1::PredictResponse& response_;
  std::set<int> several_;  // inputs of more than one sample
  bool named_ = false;     // classes have names
};

class Predict final : public Command {
 public:
  const char* name() const override { return "predict"; }
  const char* summary() const override {
    return "Apply a trained model to inputs, on this machine";
  }
  const char* example() const override {
    return "dpctl predict 7 cat.png dog.jpg\n"
           "  dpctl predict final.safetensors 5.1,3.5,1.4,0.2 --top 1\n"
           "  dpctl predict gpt.safetensors 'Once upon a time' --tokens 200 --temperature 0.8";
  }

  void DefineFlags(CLI::App& app) override {
    source_.DefineFlags(app);
    app.add_option(
           "INPUT", inputs_,
           "PNG, JPEG, NPY, IDX or CSV files, numbers as 1,2.5,3, or the beginning of a text")
        ->required();
    app.add_option("--top", top_, "How many classes are shown, the likeliest first; default 5")
        ->check(CLI::Range(1, 1 << 24))
        ->type_name("NUMBER");
    app.add_option("--tokens", tokens_, "How many tokens a text goes on; default 100")
        ->check(CLI::Range(1, kTokensMax))
        ->type_name("NUMBER");
    app.add_option("--temperature", temperature_,
                   "Below 1 draws likelier tokens, 0 always the likeliest; default 1")
        ->check(CLI::Range(0.0, 1000.0))
        ->type_name("NUMBER");
    app.add_option("--seed", seed_, "Another seed draws another text; default 0")
        ->type_name("NUMBER");
    DefineBpeFlags(app, *request_.mutable_places());
  }

  bool NeedsCoordinator() const override { return !source_.NamesFile(); }
  bool TakesWordsBehindDashes() const override { return true; }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(*request_.mutable_weights(), source_.Find(context));
    CompletePlaces(context, *request_.mutable_places());
    for (const std::string& input : inputs_) request_.add_inputs(input);
    request_.set_classes_max(top_);
    request_.set_tokens(tokens_);
    request_.set_temperature(temperature_);
    request_.set_seed(seed_);
    DP_ASSIGN_OR_RETURN(const auto response,
                        CallTrainer<v1::PredictResponse>(context, "predict", request_));
    Print(response, context);
    return kSuccess;
  }

 private:
  void Print(const v1::PredictResponse& response, Context& context) const {
    if (response.predictions().empty()) return;
    const PredictionView view(request_, response);
    const bool texts = response.predictions(0).tokens() > 0;
    if (context.flags().format == Format::kJson) return view.PrintJson(context.out());
    if (texts) return view.PrintTexts(context);
    context.flags().format == Format::kName ? view.PrintNames(context.out())
                                            : view.PrintTable(context);
  }

  ModelSource source_;
  std::vector<std::string> inputs_;
  int top_ = kClassesShown;
  int tokens_ = kTokensDefault;
  double temperature_ = 1;
  uint64_t seed_ = 0;
  v1::PredictRequest request_;
};

}  // namespace

std::unique_ptr<Command> MakePredict() { return std::make_unique<Predict>(); }

}  // namespace dp::ctl
