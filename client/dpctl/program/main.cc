#include <fcntl.h>
#include <unistd.h>

#include "client/dpctl/program/cli.h"
#include "client/dpctl/program/this_machine.h"

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
  dp::ctl::ThisMachine machine;
  return dp::ctl::RunCommandLine(argc, argv, machine.surroundings());
}
