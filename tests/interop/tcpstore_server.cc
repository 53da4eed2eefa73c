// Serves an empty in-memory store to clients of the TCPStore protocol. Prints the port, and exits
// when its standard input ends.
//
//   tcpstore_server [HOST [PORT]]

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "store/async_hash_store.h"
#include "store/wire/server.h"

int main(int argc, char** argv) {
  dp::wire::ServerOptions options;
  options.host = argc > 1 ? argv[1] : "127.0.0.1";
  if (argc > 2) options.port = static_cast<uint16_t>(std::atoi(argv[2]));
  dp::AsyncHashStore store;
  auto server = dp::wire::Server::Start(store, options);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return 1;
  }
  std::printf("%d\n", (*server)->port());
  std::fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) continue;
  return 0;
}
