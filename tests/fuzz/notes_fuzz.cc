// Texts and records that the processes of one job leave for each other. They are store files,
// presence while NCCL hangs, NCCL's own reports, and cached choices of kernels. Damage is an error
// or is left out. It never becomes a value that nobody wrote.
//
// The first byte chooses the parser.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/testing/scratch_dir.h"
#include "store/batch_codec.h"
#include "store/store_file.h"
#include "tests/fuzz/seeds.h"
#include "worker/engine/collectives/nccl/attendance.h"
#include "worker/engine/collectives/nccl/nccl_ras_report.h"
#include "worker/engine/device/cuda/plans/cuda_plan_file.h"

namespace dp::fuzz::notes {
namespace {

void CheckChanges(absl::string_view bytes) {
  const auto changes = DecodeChanges(bytes);
  if (changes.ok()) DP_CHECK(EncodeChanges(*changes) == bytes);
}

// A member that joined reads what another has written behind the file's first eight bytes.
void CheckStoreFile(absl::string_view bytes) {
  static const ScratchDir& dir = *new ScratchDir();
  constexpr size_t kTitleBytes = 8;
  const std::string path = dir.path() / "store";
  std::filesystem::remove(path);  // of the input before, if it damaged the header
  const auto file = StoreFile::Join(path, 1);
  DP_CHECK(file.ok());
  {
    std::fstream changed(path, std::ios::binary | std::ios::in | std::ios::out);
    changed.seekp(kTitleBytes);
    changed << bytes;
  }
  const auto records = (*file)->ReadNew();
  if (!records.ok()) return;
  size_t size = 0;
  for (const std::string& record : *records) size += sizeof(uint64_t) + record.size();
  DP_CHECK(size <= kTitleBytes + bytes.size());
}

void CheckPresence(absl::string_view text) {
  const auto presence = engine::PresenceFromText(text);
  if (!presence.has_value()) return;
  DP_CHECK(engine::PresenceFromText(engine::ToText(*presence)) == presence);
}

void CheckRasReport(absl::string_view text) {
  const std::string words = engine::WordsOfRasReport(text, {.rank = 1, .size = 4, .pid = 77});
  DP_CHECK(words.size() <= 2 * text.size() + 1000);
}

void CheckPlanFile(absl::string_view text) {
  using engine::cuda::ParsePlanFile;
  const engine::cuda::PlanFile file = ParsePlanFile(text);
  const engine::cuda::PlanFile again = ParsePlanFile(PrintPlanFile(file.choices));
  DP_CHECK(again.choices == file.choices && again.damaged == 0);
}

constexpr void (*kParsers[])(absl::string_view) = {CheckChanges, CheckStoreFile, CheckPresence,
                                                   CheckRasReport, CheckPlanFile};

// The header behind its title, then records.
std::string StoreFileOf(const std::vector<std::string>& records) {
  std::string body;
  const auto add = [](uint64_t number, std::string* to) {
    to->append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  for (const std::string& record : records) {
    add(record.size(), &body);
    body += record;
  }
  std::string bytes;
  add(40 + body.size(), &bytes);  // the end of the records
  for (const uint64_t member : {1, 1, 0}) add(member, &bytes);
  return bytes + body;
}

constexpr char kRasReport[] = R"({
"communicators": [
{
"hash": "0x12",
"size": 4,
"ranks": [
{
"rank": 1,
"pid": 77,
"collective_counts": {
"AllReduce": 42
}
},
{
"rank": 3,
"async_error": 6,
"collective_counts": {
"AllReduce": 41
}
}
],
"missing_ranks": [
{
"rank": 2,
"host": "10.0.0.3",
"pid": 78,
"considered_dead": true
}
]
}
]
})";

}  // namespace

void Run(absl::string_view input) { kParsers[TakeChoice(&input) % std::size(kParsers)](input); }

std::vector<std::string> Seeds() {
  const std::vector<StoreOperation> changes = {
      StoreSet{"k", "v"}, StoreAdd{"n", -3},        StoreCompareSet{"k", "v", "w"},
      StoreDelete{"k"},   StoreAppend{"k", "more"}, StoreQueuePush{"q", "1"},
      StoreQueuePop{"q"}};
  return {Chosen(0, EncodeChanges(changes)),
          Chosen(1, StoreFileOf({EncodeChanges(changes), EncodeChanges(changes)})),
          Chosen(1, StoreFileOf({})),
          Chosen(2, "12 345 2"),
          Chosen(3, kRasReport),
          Chosen(3, "Errors\n======\nrank 2 did not respond\n"),
          Chosen(4, engine::cuda::PrintPlanFile(
                        {{"H100 cudnn 9", "conv 3x3", "algo 1"}, {"H100 cudnn 9", "gemm", "7"}}))};
}

}  // namespace dp::fuzz::notes
