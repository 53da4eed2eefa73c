#include "server/rpc/gpu_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/limits.h"
#include "base/utf8.h"

namespace dp::server {
namespace {

void CutWord(std::string* word, size_t bytes_max = kGpuWordBytesMax) {
  *word = std::string(Utf8Prefix(*word, bytes_max));
}

v1::Gpu BoundedGpu(v1::Gpu gpu) {
  CutWord(gpu.mutable_name());
  CutWord(gpu.mutable_read_by());
  CutWord(gpu.mutable_model());
  CutWord(gpu.mutable_unfit(), kLastLineBytesMax);
  constexpr int kSlowedByMax = 8;
  if (gpu.slowed_by_size() > kSlowedByMax) {
    gpu.mutable_slowed_by()->DeleteSubrange(kSlowedByMax, gpu.slowed_by_size() - kSlowedByMax);
  }
  for (std::string& word : *gpu.mutable_slowed_by()) CutWord(&word);
  gpu.DiscardUnknownFields();
  return gpu;
}

GpuTable::Gpus BoundedGpus(const GpuTable::Gpus& gpus) {
  GpuTable::Gpus bounded;
  for (int i = 0; i < std::min(gpus.size(), static_cast<int>(kGpusMax)); ++i) {
    *bounded.Add() = BoundedGpu(gpus[i]);
  }
  return bounded;
}

}  // namespace

GpuTable::Told& GpuTable::ToldBy(WorkerId worker, Incarnation incarnation, const View& view) {
  // Leaves at most one entry per worker.
  std::erase_if(
      told_, [&view](const auto& each) { return view.coordinator.worker(each.first) == nullptr; });
  Told& told = told_[worker];
  if (told.by != incarnation) told = {.by = incarnation};
  return told;
}

void GpuTable::Register(WorkerId worker, const v1::RegisterRequest& request, const View& view) {
  TakeNews(view);  // these reports are older
  const Incarnation incarnation(request.incarnation());
  if (!request.no_gpu_trainer().empty()) {
    ToldBy(worker, incarnation, view).no_trainer =
        std::string(Utf8Prefix(request.no_gpu_trainer(), kLastLineBytesMax));
  }
  if (request.gpu_list().empty()) return;
  ToldBy(worker, incarnation, view).gpus = BoundedGpus(request.gpu_list());
}

void GpuTable::Report(WorkerId worker, Incarnation incarnation, const Gpus& gpus) {
  if (!gpus.empty()) news_.Put(worker, incarnation, BoundedGpus(gpus));
}

void GpuTable::TakeNews(const View& view) {
  for (auto& [worker, told] : news_.Take()) {
    if (!view.coordinator.CheckWorker(worker, told.by).ok()) continue;
    ToldBy(worker, told.by, view).gpus = std::move(told.news);
  }
}

void GpuTable::Show(const core::Worker& worker, const View& view, v1::Worker* proto) {
  TakeNews(view);
  const auto told = told_.find(worker.id);
  if (told == told_.end() || !worker.ready() || told->second.by != worker.incarnation) return;
  *proto->mutable_gpu_list() = told->second.gpus;
  proto->set_no_gpu_trainer(told->second.no_trainer);
}

}  // namespace dp::server
