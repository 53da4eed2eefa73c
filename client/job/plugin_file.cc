#include "client/job/plugin_file.h"

#include <elf.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::client {
namespace {

// Whether the file begins as a shared library, or a program that may be one, of any processor.
bool IsSharedLibrary(const std::string& path) {
  Elf64_Ehdr header = {};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  return file && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_type == ET_DYN;
}

absl::Status CheckFile(const JobFile& job, const std::string& field, const std::string& library,
                       bool must_be_here) {
  std::error_code error;
  const bool here = std::filesystem::exists(library, error);
  if (!here && !must_be_here) return absl::OkStatus();
  if (!here) {
    return job.source.Error(field, absl::StrCat(field, ": ", library,
                                                " does not exist; build it, or correct the path"));
  }
  if (IsSharedLibrary(library)) return absl::OkStatus();
  return job.source.Error(
      field, absl::StrCat(field, ": ", library,
                          " is no shared library; build one, as docs/plugins.md shows"));
}

}  // namespace

absl::Status CheckPluginFiles(const JobFile& job, bool ranks_run_here) {
  const v1::ModelSpec& model = job.spec.train().model();
  if (model.has_plugin()) {
    DP_RETURN_IF_ERROR(
        CheckFile(job, "train.model.plugin.library", model.plugin().library(), ranks_run_here));
  }
  for (int i = 0; i < model.layers_size(); ++i) {
    if (!model.layers(i).has_plugin()) continue;
    DP_RETURN_IF_ERROR(CheckFile(job, absl::StrCat("train.model.layers[", i, "].plugin.library"),
                                 model.layers(i).plugin().library(), ranks_run_here));
  }
  return absl::OkStatus();
}

}  // namespace dp::client
