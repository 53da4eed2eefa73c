// Texts of administrators and drivers. They are limits of users and queues, addresses to listen on,
// ranks and times on dpctl's command line, and tables of nvidia-smi and NVML. Two more are the
// driver's folder in /proc and CUDA_VISIBLE_DEVICES.
//
// The first byte chooses the parser.

#include <climits>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/testing/scratch_dir.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/view/holder_view.h"
#include "server/connections/listen_address.h"
#include "server/program/limits_file.h"
#include "tests/fuzz/seeds.h"
#include "worker/agent/gpus/gpu_inventory.h"
#include "worker/agent/gpus/gpus.h"
#include "worker/agent/gpus/smi_table.h"

namespace dp::fuzz::settings {
namespace {

std::string LineOf(absl::string_view kind, absl::string_view name, const core::Limit& limit) {
  return absl::StrCat(kind, " ", name, " slots=", limit.slots, " jobs=", limit.jobs, "\n");
}

void CheckLimits(absl::string_view text) {
  const auto limits = server::ParseLimits(text, "limits");
  if (!limits.ok()) {
    DP_CHECK(limits.status().message().substr(0, 7) == "limits:");
    return;
  }
  std::string written;
  if (limits->each_user) written += LineOf("user", "*", *limits->each_user);
  if (limits->each_queue) written += LineOf("queue", "*", *limits->each_queue);
  for (const auto& [name, limit] : limits->users) written += LineOf("user", name, limit);
  for (const auto& [name, limit] : limits->queues) written += LineOf("queue", name, limit);
  const auto again = server::ParseLimits(written, "limits");
  DP_CHECK(again.ok() && again->users == limits->users && again->queues == limits->queues);
  DP_CHECK(again->each_user == limits->each_user && again->each_queue == limits->each_queue);
}

void CheckListenAddress(absl::string_view text) {
  const auto address = server::ListenAddress::Parse(text);
  if (!address.ok()) return;
  DP_CHECK(address->port >= 0 && address->port <= 65535);
  (void)address->loopback();
  const auto again = server::ListenAddress::Parse(address->ToString());
  DP_CHECK(again.ok() && again->ToString() == address->ToString());
}

void CheckRanks(absl::string_view text) {
  const auto ranks = ctl::ParseRanks(text);
  if (!ranks.ok()) return;
  DP_CHECK(!ranks->empty() && ranks->size() <= static_cast<size_t>(kRanksMax));
  for (const int rank : *ranks) DP_CHECK(rank >= 0 && rank < kRanksMax);
}

void CheckSince(absl::string_view text) {
  const absl::Time now = absl::FromUnixSeconds(1'764'228'000);
  (void)ctl::ReadSince(std::string(text), now);
  const ctl::HolderName holder = ctl::ParseHolder(text);
  DP_CHECK(ctl::HolderText(holder.name, holder.worker) == text);
}

void CheckSmi(absl::string_view text) {
  for (const auto& [name, gpu] : worker::ReadingsInSmiTable(text)) {
    DP_CHECK(gpu.name == name);
    DP_CHECK(gpu.memory_bytes.value_or(0) >= 0 && gpu.memory_used_bytes.value_or(0) >= 0);
    DP_CHECK(gpu.uncorrected_errors.value_or(0) >= 0);
  }
  for (const worker::InstalledGpu& gpu : worker::GpusInSmiTable(text)) DP_CHECK(!gpu.uuid.empty());
}

void CheckNvmlLines(absl::string_view text) {
  const auto found = worker::InventoryInNvmlLines("libnvidia-ml.so.1", text);
  if (!found.ok()) return;
  DP_CHECK(found->lost >= 0);
  const auto again = worker::InventoryInNvmlLines("libnvidia-ml.so.1", worker::NvmlLines(found));
  DP_CHECK(again.ok() && again->gpus == found->gpus && again->lost == found->lost);
}

// A driver's file on a GPU, a zero byte, CUDA_VISIBLE_DEVICES.
void CheckGpus(absl::string_view text) {
  static const ScratchDir& dir = *new ScratchDir();
  const std::filesystem::path folder = dir.path() / "0000:c1:00.0";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "information", std::ios::binary) << TakePart(&text, '\0');
  std::vector<worker::InstalledGpu> gpus = worker::ListByProc(dir.path());
  DP_CHECK(gpus.size() == 1 && gpus[0].bus_id == "00000000:c1:00.0");
  gpus.push_back({.bus_id = "00000000:c2:00.0", .uuid = "GPU-77", .model = gpus[0].model});
  const std::string visible(text);
  const worker::CudaLimit limit{.visible = visible.c_str(), .order = "PCI_BUS_ID"};
  const std::vector<std::string> found = worker::FindGpus(limit, gpus);
  DP_CHECK(std::set(found.begin(), found.end()).size() == found.size());
  (void)worker::GpuLines({.gpus = gpus, .listed_by = "proc"}, found,
                         worker::WhyLeftOut(limit, gpus));
}

constexpr void (*kParsers[])(absl::string_view) = {
    CheckLimits, CheckListenAddress, CheckRanks, CheckSince, CheckSmi, CheckNvmlLines, CheckGpus};

}  // namespace

void Run(absl::string_view input) { kParsers[TakeChoice(&input) % std::size(kParsers)](input); }

std::vector<std::string> Seeds() {
  return {Chosen(0, "# at a time\nuser * slots=16 jobs=4\nuser ann slots=32\nqueue batch jobs=0\n"),
          Chosen(1, "0.0.0.0:7070"),
          Chosen(1, "[::1]:0"),
          Chosen(2, "0,2-5,9999"),
          Chosen(3, "1h30m"),
          Chosen(3, "2026-11-21T19:10:00Z"),
          Chosen(3, "worker/node7"),
          Chosen(4, "0, GPU-2f5a, NVIDIA H100, 81559, 4, 0, 31, 0, No\n"),
          Chosen(4, "1, GPU-77, NVIDIA A100, [N/A], 4, [Not Supported], 31, 2, Yes\n"),
          Chosen(4, "00000000:C1:00.0, GPU-2f5a, NVIDIA H100\n"),
          Chosen(5, "noise\nnvml-gpu\t0000:c1:00.0\tGPU-2f5a\tNVIDIA H100\nnvml-lost\t1\n"),
          Chosen(5, "\nnvml-why-not\tno driver\n"),
          Chosen(6, absl::StrCat("Model: \t NVIDIA H100\nGPU UUID: \t GPU-2f5a\n",
                                 std::string(1, '\0'), "GPU-7, 0,-1"))};
}

}  // namespace dp::fuzz::settings
