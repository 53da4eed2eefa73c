#include "worker/trainer/checkpoint/own_files.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "proto/convert/time.h"

namespace dp::trainer {
namespace {

constexpr char kBeforeEnding[] = ".tmp";
constexpr char kPlacingEnding[] = ".placing";

absl::Status NotOurs(absl::string_view why) { return absl::FailedPreconditionError(why); }

std::string NameOf(FoundFile::Kind kind) {
  switch (kind) {
    case FoundFile::Kind::kRegular:
      return "a regular file";
    case FoundFile::Kind::kDirectory:
      return "a directory";
    case FoundFile::Kind::kSymbolicLink:
      return "a symbolic link";
    case FoundFile::Kind::kOther:
      return "a device, a pipe or a socket";
  }
  return "";
}

std::string TimeInWords(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone());
}

absl::Status CheckContents(const FoundFile& file, int64_t bytes, absl::string_view sha256,
                           absl::string_view source) {
  if (file.bytes != bytes) {
    return NotOurs(absl::StrCat("it has ", file.bytes, " bytes, and ", source, " says ", bytes));
  }
  DP_ASSIGN_OR_RETURN(const std::string found, file.sha256());
  if (found == sha256) return absl::OkStatus();
  return NotOurs(absl::StrCat("its SHA-256 is ", found, ", and ", source, " says ", sha256));
}

// The number between "." + kind + "-" and the ending of a suffix; 0: it has another form.
uint64_t GenerationIn(absl::string_view suffix, absl::string_view ending) {
  uint64_t generation = 0;
  const bool good = absl::ConsumePrefix(&suffix, ".generation-") &&
                    absl::ConsumeSuffix(&suffix, ending) && absl::SimpleAtoi(suffix, &generation);
  // Numbers have other forms, too, such as "+7", which no rank writes.
  return good && absl::StrCat(generation) == suffix ? generation : 0;
}

}  // namespace

std::string WeightsBeside::Suffix(absl::string_view job) const {
  return absl::StrCat(".", job, ".generation-", generation.value(),
                      phase == Phase::kBefore ? kBeforeEnding : kPlacingEnding);
}

std::optional<WeightsBeside> WeightsBeside::Parse(absl::string_view suffix, absl::string_view job) {
  if (!absl::ConsumePrefix(&suffix, absl::StrCat(".", job))) return std::nullopt;
  if (const uint64_t generation = GenerationIn(suffix, kBeforeEnding)) {
    return WeightsBeside{Generation(generation), Phase::kBefore};
  }
  if (const uint64_t generation = GenerationIn(suffix, kPlacingEnding)) {
    return WeightsBeside{Generation(generation), Phase::kPlacing};
  }
  return std::nullopt;
}

bool IsNamelessWeightsSuffix(absl::string_view suffix) {
  return GenerationIn(suffix, kBeforeEnding) != 0;
}

absl::Status CheckKind(const FoundFile& file, FoundFile::Kind expected) {
  if (file.kind == expected) return absl::OkStatus();
  return NotOurs(absl::StrCat("it is ", NameOf(file.kind), ", and dp wrote ", NameOf(expected)));
}

absl::Status CheckManifest(JobId job, const CheckpointName& name,
                           const v1::CheckpointManifest& manifest) {
  if (manifest.job() != job.value()) {
    return NotOurs(absl::StrCat("its manifest names job ", manifest.job()));
  }
  if (manifest.step() == name.step && manifest.generation() == name.generation) {
    return absl::OkStatus();
  }
  return NotOurs(absl::StrCat("its manifest is of step ", manifest.step(), " and generation ",
                              manifest.generation()));
}

absl::Status CheckInCheckpoint(const v1::CheckpointManifest& manifest, absl::string_view name,
                               const FoundFile& file) {
  for (const v1::ManifestFile& each : manifest.files()) {
    if (each.name() != name) continue;
    DP_RETURN_IF_ERROR(CheckKind(file, FoundFile::Kind::kRegular));
    return CheckContents(file, each.bytes(), each.sha256(), "the manifest");
  }
  return NotOurs("dp did not write it");
}

absl::Status CheckInPartial(absl::string_view name, const FoundFile& file) {
  const bool known = name == kModelFile || name == kOptimizerFile || name == kManifestFile;
  if (!known) return NotOurs("dp did not write it");
  return CheckKind(file, FoundFile::Kind::kRegular);
}

absl::Status CheckWeights(const v1::FileRemoval& removal, const FoundFile& file) {
  DP_RETURN_IF_ERROR(CheckKind(file, FoundFile::Kind::kRegular));
  const v1::Weights& record = removal.weights();
  if (!removal.has_weights() || record.path() != removal.weights_path()) {
    return NotOurs(absl::StrCat("job ", removal.job(), " has put no weights there"));
  }
  if (!record.has_modified_at()) {
    return NotOurs(
        "a release wrote it that did not record the time of the file, so it may be another job's");
  }
  const absl::Time written = FromProto(record.modified_at());
  if (file.modified_at != written) {
    return NotOurs(absl::StrCat("it was written at ", TimeInWords(file.modified_at), ", and job ",
                                removal.job(), " wrote its weights at ", TimeInWords(written)));
  }
  return CheckContents(file, record.bytes(), record.sha256(), "the coordinator's record");
}

}  // namespace dp::trainer
