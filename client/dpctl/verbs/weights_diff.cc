#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/verbs/weights_file.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/printable.h"
#include "client/dpctl/view/table.h"
#include "proto/weights/weights_diff.h"

namespace dp::ctl {
namespace {

using Kind = TensorDifference::Kind;

// As diff has it: the comparison was made, and found differences.
constexpr int kDifferent = kFailed;

const char* JsonNameOf(Kind kind) {
  switch (kind) {
    case Kind::kEqual:
      return "equal";
    case Kind::kDiffers:
      return "differs";
    case Kind::kShape:
      return "otherShape";
    case Kind::kOnlyInA:
      return "onlyInA";
    case Kind::kOnlyInB:
      return "onlyInB";
  }
  return "";
}

class WeightsDiff final : public Command {
 public:
  const char* name() const override { return "diff"; }
  const char* summary() const override { return "Compare two files of weights, tensor by tensor"; }
  const char* example() const override {
    return "dpctl weights diff before.safetensors after.safetensors\n"
           "  dpctl weights diff checkpoints/job-7-*/step-400-generation-1 final.safetensors -o "
           "json";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("A", a_, "File of weights, or the directory of a checkpoint")->required();
    app.add_option("B", b_, "The same")->required();
  }

  bool NeedsCoordinator() const override { return false; }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(const WeightsFile a, OpenWeights(a_));
    DP_ASSIGN_OR_RETURN(const WeightsFile b, OpenWeights(b_));
    const std::vector<TensorDifference> all = CompareTensors(a.tensors, b.tensors);
    const bool equal = std::all_of(all.begin(), all.end(), [](const TensorDifference& each) {
      return each.kind == Kind::kEqual;
    });
    Print(all, equal, context);
    return equal ? kSuccess : kDifferent;
  }

 private:
  void Print(const std::vector<TensorDifference>& all, bool equal, Context& context) const {
    switch (context.flags().format) {
      case Format::kJson:
        return PrintJson(all, equal, context.out());
      case Format::kName:
        return PrintNames(all, context.out());
      case Format::kTable:
        return PrintTable(all, equal, context);
    }
  }

  static void PrintNames(const std::vector<TensorDifference>& all, std::ostream& out) {
    for (const TensorDifference& each : all) {
      if (each.kind != Kind::kEqual) out << Printable(each.name) << '\n';
    }
  }

  // Tensors that differ.
  static void PrintTable(const std::vector<TensorDifference>& all, bool equal, Context& context) {
    Table table({"TENSOR", "IN A", "IN B", "ELEMENTS", "MAX ABSOLUTE", "MAX RELATIVE"});
    int64_t differing = 0;
    for (const TensorDifference& each : all) {
      if (each.kind == Kind::kEqual) continue;
      ++differing;
      const bool values = each.kind == Kind::kDiffers;
      const auto number = [&](double of) {
        return values ? absl::StrFormat("%.6g", of) : std::string();
      };
      table.Add({each.name, each.in_a, each.in_b, values ? absl::StrCat(each.differing) : "",
                 number(each.max_absolute), number(each.max_relative)});
    }
    if (!equal) table.Print(context.out(), !context.flags().no_headers);
    context.err() << (equal ? absl::StrCat("all ", all.size(), " tensors are equal, bit for bit\n")
                            : absl::StrCat(differing, " of ", all.size(), " tensors differ\n"));
  }

  void PrintJson(const std::vector<TensorDifference>& all, bool equal, std::ostream& out) const {
    JsonWriter json(out);
    json.BeginObject();
    json.Field("a", a_);
    json.Field("b", b_);
    json.Field("equal", equal);
    json.Key("tensors");
    json.BeginArray();
    for (const TensorDifference& each : all) WriteTensor(each, json);
    json.EndArray();
    json.EndObject();
  }

  static void WriteTensor(const TensorDifference& each, JsonWriter& json) {
    json.BeginObject();
    json.Field("name", each.name);
    json.Field("kind", JsonNameOf(each.kind));
    json.TextOrNull("inA", each.in_a);
    json.TextOrNull("inB", each.in_b);
    const bool compared = each.kind == Kind::kEqual || each.kind == Kind::kDiffers;
    const auto field = [&](const char* name, double number) {
      json.Key(name);
      compared ? json.Exact(number) : json.Null();
    };
    json.Key("differing");
    compared ? json.Int(each.differing) : json.Null();
    field("maxAbsolute", each.max_absolute);
    field("maxRelative", each.max_relative);
    json.EndObject();
  }

  std::string a_, b_;
};

}  // namespace

std::unique_ptr<Command> MakeWeightsDiff() { return std::make_unique<WeightsDiff>(); }

}  // namespace dp::ctl
