#include "client/dpctl/cli.h"
#include "client/dpctl/this_machine.h"

int main(int argc, char** argv) {
  dp::ctl::ThisMachine machine;
  return dp::ctl::RunCommandLine(argc, argv, machine.surroundings());
}
