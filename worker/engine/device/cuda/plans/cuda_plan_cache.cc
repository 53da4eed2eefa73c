#include "worker/engine/device/cuda/plans/cuda_plan_cache.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/program/log.h"
#include "worker/engine/device/cuda/plans/cuda_plan_file.h"

namespace dp::engine::cuda {
namespace {

namespace fs = std::filesystem;

// Above the size of kPlanCacheSizeMax lines. A longer file is not one of ours.
constexpr size_t kFileBytesMax = size_t{8} << 20;

absl::Status Refused(absl::string_view what, const std::string& path) {
  return absl::InternalError(absl::StrCat("plan cache: cannot ", what, " '", path, "'"));
}

// The contents of the file; empty where there is none.
PlanFile ReadPlanFile(const std::string& path) {
  std::error_code error;
  if (path.empty() || !fs::is_regular_file(path, error)) return {};
  if (fs::file_size(path, error) > kFileBytesMax || error) return {.damaged = 1};
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) return {.damaged = 1};
  return ParsePlanFile(text);
}

// Readers see the old file or the new one. The file is not synced to the disk: after a crash of the
// host it may be neither, but then its hashes show the damage.
absl::Status ReplaceFile(const std::string& path, const std::string& text) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) return Refused("make the folder of", path);
  const std::string fresh = absl::StrCat(path, ".", getpid());
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (out) fs::rename(fresh, path, error);
  if (out && !error) return absl::OkStatus();
  fs::remove(fresh, error);
  return Refused("write", path);
}

const char* NonEmptyVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

}  // namespace

PlanCache::PlanCache(std::string file, std::string environment)
    : file_(std::move(file)), environment_(std::move(environment)) {
  const PlanFile read = ReadPlanFile(file_);
  if (read.damaged > 0) {
    Log(Severity::kWarning, "cuda_plan_cache_damaged", {{"file", file_}, {"lines", read.damaged}});
  }
  for (const PlanChoice& each : read.choices) {
    if (each.environment == environment_) choices_.insert_or_assign(each.plan, each.choice);
  }
}

absl::optional<std::string> PlanCache::Find(absl::string_view plan) {
  const auto found = choices_.find(plan);
  if (found == choices_.end()) return absl::nullopt;
  used_.insert(found->first);
  return found->second;
}

void PlanCache::Put(absl::string_view plan, absl::string_view choice) {
  DP_CHECK(plan.find_first_of("\t\n") == plan.npos);
  DP_CHECK(choice.find_first_of("\t\n") == choice.npos);
  const bool known = choices_.contains(plan);
  if (!known && choices_.size() >= kPlanCacheSizeMax) return;
  used_.insert(std::string(plan));
  std::string& held = choices_[std::string(plan)];
  if (known && held == choice) return;
  held = std::string(choice);
  unsaved_ = true;
}

std::string PlanCache::Used() const {
  std::vector<PlanChoice> choices;
  for (const std::string& plan : used_) choices.push_back({environment_, plan, choices_.at(plan)});
  return PrintPlanFile(choices);
}

void PlanCache::Take(absl::string_view used) {
  for (const PlanChoice& each : ParsePlanFile(used).choices) {
    if (each.environment == environment_) Put(each.plan, each.choice);
  }
}

absl::Status PlanCache::Save() {
  if (!unsaved_ || file_.empty()) return absl::OkStatus();
  std::vector<PlanChoice> all;
  for (const auto& [plan, choice] : choices_) all.push_back({environment_, plan, choice});
  for (PlanChoice& each : ReadPlanFile(file_).choices) {
    const bool ours = each.environment == environment_ && choices_.contains(each.plan);
    if (!ours && all.size() < kPlanCacheSizeMax) all.push_back(std::move(each));
  }
  const absl::Status saved = ReplaceFile(file_, PrintPlanFile(all));
  if (saved.ok()) unsaved_ = false;
  return saved;
}

std::string DefaultPlanCacheFile() {
  if (const char* file = std::getenv("DP_CUDA_PLAN_CACHE")) return file;
  if (const char* cache = NonEmptyVariable("XDG_CACHE_HOME")) {
    return absl::StrCat(cache, "/dp/cuda_plans");
  }
  if (const char* home = NonEmptyVariable("HOME")) {
    return absl::StrCat(home, "/.cache/dp/cuda_plans");
  }
  return "";
}

}  // namespace dp::engine::cuda
