#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/data/describe.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/printable.h"

namespace dp::ctl {
namespace {

// The most that the text form shows of a list; -o json has all.
constexpr size_t kShownMax = 20;

std::string ShortList(const std::vector<std::string>& items) {
  std::vector<std::string> shown(items.begin(), items.begin() + std::min(items.size(), kShownMax));
  if (items.size() > kShownMax)
    shown.push_back(absl::StrCat("and ", items.size() - kShownMax, " more"));
  return absl::StrJoin(shown, ", ");
}

std::string NumberText(double number) { return absl::StrFormat("%.6g", number); }

std::vector<std::string> NumberTexts(const std::vector<double>& numbers) {
  std::vector<std::string> texts;
  for (const double number : numbers) texts.push_back(NumberText(number));
  return texts;
}

class DataInspect final : public Command {
 public:
  const char* name() const override { return "inspect"; }
  const char* summary() const override {
    return "Describe a data set, and show the lines of a job file that read it";
  }
  const char* example() const override {
    return "dpctl data inspect /usr/share/datasets/fashion-mnist\n"
           "  dpctl data inspect a.npz -o json | jq .mean";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("PATH", path_, "A directory or file of samples, or a.npz#NAME")->required();
  }

  bool NeedsCoordinator() const override { return false; }

  absl::StatusOr<int> Run(Context& context) override {
    // Job files need absolute paths.
    const std::string path =
        (std::filesystem::path(context.surroundings().working_dir) / path_).lexically_normal();
    const absl::StatusOr<data::Description> found = data::Describe(path);
    DP_RETURN_IF_ERROR(AsUsage(found.status()));
    if (context.flags().format == Format::kJson) {
      PrintJson(*found, path, context.out());
    } else {
      PrintText(*found, context.out());
    }
    return kSuccess;
  }

 private:
  static void PrintText(const data::Description& found, std::ostream& out) {
    const auto line = [&](const char* name, const std::string& text) {
      if (!text.empty()) out << absl::StrFormat("%-9s", name) << Printable(text) << '\n';
    };
    line("kind", data::NameOf(found.format));
    if (found.shape.empty()) {
      line("tokens", absl::StrCat(found.samples));
    } else {
      line("samples", found.test_samples > 0 ? absl::StrCat(found.samples, " for training, ",
                                                            found.test_samples, " for the test")
                                             : absl::StrCat(found.samples));
      line("shape", absl::StrCat(model::ShapeText(found.shape), " ", found.element_type));
    }
    std::vector<std::string> classes;
    for (size_t i = 0; i < found.classes.size(); ++i)
      classes.push_back(absl::StrCat(found.classes[i], " (", found.class_counts[i], ")"));
    line("classes", ShortList(classes));
    const std::string of =
        found.measured < found.samples ? absl::StrCat("  (of ", found.measured, " samples)") : "";
    if (!found.mean.empty()) {
      line("mean", ShortList(NumberTexts(found.mean)) + of);
      line("std", ShortList(NumberTexts(found.std)) + of);
    }
    out << "\ntrain:\n  data:\n";
    for (const std::string& each : found.job_lines) out << "    " << Printable(each) << '\n';
  }

  static void PrintJson(const data::Description& found, const std::string& path,
                        std::ostream& out) {
    JsonWriter json(out);
    json.BeginObject();
    json.Field("path", path);
    json.Field("kind", data::NameOf(found.format));
    json.TextOrNull("type", found.element_type);
    json.Field("samples", found.samples);
    json.Field("testSamples", found.test_samples);
    json.Key("shape");
    json.BeginArray();
    for (const int64_t extent : found.shape) json.Int(extent);
    json.EndArray();
    json.Key("classes");
    json.BeginArray();
    for (size_t i = 0; i < found.classes.size(); ++i) {
      json.BeginObject();
      json.Field("name", found.classes[i]);
      json.Field("samples", found.class_counts[i]);
      json.EndObject();
    }
    json.EndArray();
    WriteNumbers("mean", found.mean, json);
    WriteNumbers("std", found.std, json);
    json.Field("measured", found.measured);
    json.Field("job", absl::StrCat("train:\n  data:\n    ",
                                   absl::StrJoin(found.job_lines, "\n    "), "\n"));
    json.EndObject();
  }

  static void WriteNumbers(const char* key, const std::vector<double>& numbers, JsonWriter& json) {
    json.Key(key);
    json.BeginArray();
    for (const double number : numbers) json.Double(number);
    json.EndArray();
  }

  std::string path_;
};

}  // namespace

std::unique_ptr<Command> MakeDataInspect() { return std::make_unique<DataInspect>(); }

}  // namespace dp::ctl
