#include "base/replace_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file_descriptor.h"

namespace dp {
namespace {

std::string Beside(const std::string& path) { return path + ".new"; }

bool WriteAndSync(const std::string& path, const std::string& text) {
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  return file.valid() &&
         write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
         fsync(file.get()) == 0;
}

}  // namespace

bool ReplaceFile(const std::string& path, const std::string& text) {
  const std::string beside = Beside(path);
  if (WriteAndSync(beside, text) && rename(beside.c_str(), path.c_str()) == 0) return true;
  unlink(beside.c_str());
  return false;
}

void RemoveReplacedFile(const std::string& path) {
  unlink(path.c_str());
  unlink(Beside(path).c_str());
}

}  // namespace dp
