#include <fcntl.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "base/program/hidden_argument.h"
#include "base/security/tls13.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/program/cli.h"
#include "client/dpctl/program/this_machine.h"
#include "client/grpc_log.h"

namespace {

// A file opened later would get the descriptor of a closed standard stream, and its output. With
// these placeholders, reading finds the end and writing fails.
void OccupyClosedStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY);
}

}  // namespace

int main(int argc, char** argv) {
  OccupyClosedStreams();
  dp::client::SilenceGrpcLog();
  if (const absl::Status tls = dp::security::RequireTls13(); !tls.ok()) {
    std::cerr << "dpctl: " << tls.message() << std::endl;
    return dp::ctl::kFailed;
  }
  const std::vector<std::string> words = dp::TakeArguments(argc, argv, "--token");
  std::vector<const char*> line;
  for (const std::string& word : words) line.push_back(word.c_str());
  dp::ctl::ThisMachine machine;
  return dp::ctl::RunCommandLine(argc, line.data(), machine.surroundings());
}
