#pragma once

#include <filesystem>
#include <string>

#include "base/check.h"

namespace dp {

// A directory of a test's own, removed by the destructor.
class ScratchDir {
 public:
  ScratchDir() {
    std::string name = (std::filesystem::temp_directory_path() / "dp-test-XXXXXX").string();
    DP_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dp
