#include "client/dpctl/view/file_view.h"

#include <ostream>

#include "absl/strings/str_cat.h"
#include "client/dpctl/view/printable.h"

namespace dp::ctl {
namespace {

std::string WordFor(v1::FileOutcome::Kind kind) {
  switch (kind) {
    case v1::FileOutcome::KIND_REMOVED:
      return "removed";
    case v1::FileOutcome::KIND_FAILED:
      return "failed";
    default:
      return "left";
  }
}

// " on worker node1", or nothing.
std::string PlaceText(const FileOnWorker& file) {
  return file.worker.empty() ? "" : absl::StrCat(" on worker ", Printable(file.worker));
}

}  // namespace

void PrintFiles(const std::vector<FileOnWorker>& files, bool dry_run, std::ostream& out,
                std::ostream& err) {
  for (const FileOnWorker& file : files) {
    const std::string path = Printable(file.outcome.path());
    const std::string reason = Printable(file.outcome.reason());
    switch (file.outcome.kind()) {
      case v1::FileOutcome::KIND_REMOVED:
        out << path << PlaceText(file) << (dry_run ? " would be removed\n" : " is removed\n");
        break;
      case v1::FileOutcome::KIND_FAILED:
        err << "dpctl: " << path << PlaceText(file) << " is not removed: " << reason << '\n';
        break;
      default:
        out << path << PlaceText(file) << " stays: " << reason << '\n';
    }
  }
}

void WriteFiles(const std::vector<FileOnWorker>& files, JsonWriter& json) {
  json.Key("files");
  json.BeginArray();
  for (const FileOnWorker& file : files) {
    json.BeginObject();
    json.Field("path", file.outcome.path());
    json.TextOrNull("worker", file.worker);
    json.Field("outcome", WordFor(file.outcome.kind()));
    json.Field("bytes", int64_t{file.outcome.bytes()});
    json.TextOrNull("reason", file.outcome.reason());
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace dp::ctl
