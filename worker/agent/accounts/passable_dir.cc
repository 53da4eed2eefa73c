#include "worker/agent/accounts/passable_dir.h"

#include <sys/stat.h>

#include <cerrno>

namespace dp::worker {
namespace {

constexpr mode_t kPassable = 0711;

}  // namespace

int MakePassable(const std::string& dir) {
  struct stat info {};
  if (stat(dir.c_str(), &info) != 0) return errno;
  if ((info.st_mode & 0777) == kPassable) return 0;
  return chmod(dir.c_str(), kPassable) == 0 ? 0 : errno;
}

}  // namespace dp::worker
