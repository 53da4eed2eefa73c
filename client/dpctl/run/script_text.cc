#include "client/dpctl/run/script_text.h"

#include <filesystem>
#include <fstream>

#include "client/dpctl/run/program_line.h"

namespace dp::ctl {
namespace {

// Far more than a script has; a data file with such a name is not worth reading.
constexpr size_t kScriptBytesMax = 4 << 20;

}  // namespace

std::string ScriptText(const std::string& dir, const std::string& script) {
  if (!IsScript(script)) return "";
  const std::filesystem::path path = std::filesystem::path(dir) / script;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  if (std::filesystem::file_size(path, error) > kScriptBytesMax || error) return "";
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace dp::ctl
