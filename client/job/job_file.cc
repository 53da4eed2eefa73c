#include "client/job/job_file.h"

#include <sstream>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/utf8.h"
#include "client/job/input_file.h"
#include "client/job/yaml_message.h"
#include "client/job/yaml_override.h"
#include "client/job/yaml_scalar.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/yaml.h"

namespace dp::client {
namespace {

constexpr char kApiVersion[] = "dp/v1";
constexpr char kKind[] = "Job";

absl::Status At(const std::string& file, const YAML::Mark& mark, absl::string_view what) {
  const Place place = mark.is_null() ? Place{} : Place{mark.line + 1, mark.column + 1};
  return FieldSource(file).ErrorAt("", place, what);
}

// Counts the documents of a file, up to the second.
class DocumentCount final : public YAML::EventHandler {
 public:
  // YAML::LoadAll would find documents without an end, and take all memory, where a comma follows
  // the first. Throws YAML::Exception.
  static DocumentCount Of(const std::string& text) {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    DocumentCount found;
    while (found.count_ < 2 && parser.HandleNextDocument(found)) continue;
    return found;
  }

  int count() const { return count_; }
  const YAML::Mark& last() const { return last_; }  // where the last one begins

  void OnDocumentStart(const YAML::Mark& mark) override {
    ++count_;
    last_ = mark;
    begins_ = true;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Note(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Note(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    Note(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Note(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Note(mark);
  }
  void OnMapEnd() override {}

 private:
  // A document begins with its first node, not with the line of dashes before it.
  void Note(const YAML::Mark& mark) {
    if (std::exchange(begins_, false)) last_ = mark;
  }

  int count_ = 0;
  bool begins_ = false;
  YAML::Mark last_;
};

// The only document of the file; its root is a mapping.
absl::StatusOr<YAML::Node> LoadDocument(absl::string_view text, const std::string& file) {
  if (!IsUtf8(std::string_view(text.data(), text.size())))
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": the file is not UTF-8 text; save it as that"));
  YAML::Node root;
  try {
    const DocumentCount documents = DocumentCount::Of(std::string(text));
    if (documents.count() > 1)
      return At(file, documents.last(),
                "a second document; one file holds one job, so give it a file of its own");
    root = YAML::Load(std::string(text));
  } catch (const YAML::Exception& error) {
    return At(file, error.mark,
              absl::StrCat("not YAML: ", error.msg,
                           "; look for a quote, bracket or indent that is wrong here or before"));
  }
  if (root.IsNull())
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": the file is empty; expected a job (docs/job-file.md)"));
  if (!root.IsMap())
    return At(file, root.Mark(),
              absl::StrCat("the job is ", Shown(root), "; expected a mapping of fields"));
  return root;
}

// Comes before all other checks: in a file of another kind every field would be unknown.
absl::Status CheckHeader(const YAML::Node& root, const std::string& file) {
  const std::pair<const char*, const char*> wanted[] = {{"apiVersion", kApiVersion},
                                                        {"kind", kKind}};
  for (const auto& [field, value] : wanted) {
    const YAML::Node node = root[field];
    if (!node.IsDefined())
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": ", field, " is missing; add \"", field, ": ", value, "\""));
    if (!node.IsScalar() || node.Scalar() != value)
      return At(file, node.Mark(),
                absl::StrCat(field, " is ", Shown(node), "; expected \"", value, "\""));
  }
  return absl::OkStatus();
}

// Leaves names in the spec: where the values come from is nobody else's business.
absl::Status TakeSecretSources(JobFile& job) {
  for (int i = 0; i < job.spec.secrets_size(); ++i) {
    auto source = ParseSecretSource(job.spec.secrets(i));
    if (!source.ok())
      return job.source.Error(absl::StrCat("secrets[", i, "]"), source.status().message());
    job.spec.set_secrets(i, source->name);
    job.secrets.push_back(*std::move(source));
  }
  return absl::OkStatus();
}

absl::Status Convert(const YAML::Node& root, const std::vector<std::string>& overrides,
                     JobFile& job) {
  for (const std::string& override : overrides) {
    DP_ASSIGN_OR_RETURN(std::string path, ApplyOverride(override, root));
    job.source.NoteOverride(path);
  }
  DP_RETURN_IF_ERROR(FillMessage(root, job.source, job.spec));
  DP_RETURN_IF_ERROR(TakeSecretSources(job));
  // The file's own header was checked before; an override may have changed it.
  for (const auto& [field, wanted, value] :
       {std::tuple("apiVersion", kApiVersion, job.spec.api_version()),
        std::tuple("kind", kKind, job.spec.kind())})
    if (value != wanted)
      return job.source.Error(
          field, absl::StrCat(field, " is \"", value, "\"; expected \"", wanted, "\""));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobFile> ParseJobFile(absl::string_view text, const std::string& file,
                                     const std::vector<std::string>& overrides) {
  DP_ASSIGN_OR_RETURN(YAML::Node root, LoadDocument(text, file));
  JobFile job{.spec = {}, .source = FieldSource(file), .secrets = {}};
  try {
    DP_RETURN_IF_ERROR(CheckHeader(root, file));
    DP_RETURN_IF_ERROR(Convert(root, overrides, job));
  } catch (const YAML::Exception& error) {
    return At(file, error.mark, error.msg);
  }
  return job;
}

absl::StatusOr<JobFile> ReadJobFile(const std::string& path,
                                    const std::vector<std::string>& overrides, int stop) {
  const absl::StatusOr<std::string> text = ReadInput(path, kSpecBytesMax + 1, stop);
  if (absl::IsCancelled(text.status()))
    return absl::CancelledError(absl::StrCat("interrupted while reading job file '", path, "'"));
  if (!text.ok())
    return absl::NotFoundError(
        absl::StrCat("job file '", path, "' cannot be read: ", text.status().message()));
  if (text->size() > kSpecBytesMax)
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": larger than ", kSpecBytesMax, " bytes; is it a job file?"));
  return ParseJobFile(*text, path, overrides);
}

}  // namespace dp::client
