#include "client/dpctl/this_machine.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "client/grpc_connection.h"
#include "client/idx_shape.h"

namespace dp::ctl {
namespace {

class GrpcCoordinator final : public Coordinator {
 public:
  explicit GrpcCoordinator(const std::string& address) : connection_(address) {}
  client::JobsConnection& jobs() override { return connection_; }
  client::WorkersConnection& workers() override { return connection_; }
  client::LogsConnection& logs() override { return connection_; }
  client::StoreConnection& store() override { return connection_; }
  void CancelAll() override { connection_.CancelAll(); }

 private:
  client::GrpcConnection connection_;
};

int TerminalColumns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  // The last column stays free: some terminals wrap at it.
  return known ? size.ws_col - 1 : 79;
}

}  // namespace

ThisMachine::ThisMachine()
    : world_{.connect = [](const std::string& address) -> std::unique_ptr<Coordinator> {
               return std::make_unique<GrpcCoordinator>(address);
             },
             .start_local = StartLocalCluster,
             .sample_shape = client::IdxSampleShape,
             .terminal = {.out = std::cout,
                          .err = std::cerr,
                          .err_is_tty = isatty(STDERR_FILENO) != 0,
                          .columns = TerminalColumns()},
             .clock = Clock::System(),
             .interrupts = interrupts_,
             .catch_signals = [this] { signals_ = std::make_unique<SignalThread>(interrupts_); }} {
  // A reader that has had enough, as head, is no failure: the streams notice and the command ends.
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace dp::ctl
