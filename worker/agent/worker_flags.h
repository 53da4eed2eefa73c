#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "client/credentials.h"
#include "worker/agent/spool/log_shipper.h"

namespace dp::worker {

// The exit code of a wrong command line; a restart would not help.
inline constexpr int kUsageError = 2;

// The command line of dp-worker, and what main finds out about the host.
struct WorkerFlags {
  std::string coordinator = "127.0.0.1:7070";
  int slots = 0;  // 0: not given
  std::string name;
  std::string address;
  std::string state_dir;
  uint64_t spool_bytes_max = kSpoolBytesMax;
  std::string trainer;
  std::vector<std::string> labels;
  std::vector<std::string> pass_env;
  bool pass_all_env = false;
  bool store_any_user = false;
  std::string run_as;  // empty: the default
  bool allow_root = false;
  bool new_privileges = false;
  bool private_tmp = false;
  bool read_only_root = false;
  std::vector<std::string> writable;
  std::vector<std::string> allow_program;
  client::CredentialFlags credentials;
  std::string join;
  std::string undrain;  // ends the drain with this reason; empty: none
  std::string process_tracking = "auto";
  int gpu_free_mib = 512;
  int gpu_free_within_s = 30;
  int64_t gpu_errors_max = 0;
  bool list_gpus = false;
  bool list_devices = false;
  std::string list_nvml;          // the library; empty: not given
  std::string cgroup;             // the daemon's own at its start (v2); empty: none
  std::vector<std::string> gpus;  // found on this host, not a flag
  std::string nvml_fault;         // as in GpuInventory
};

// Reads the command line; --help describes each flag. If there is nothing to run, returns the exit
// code: for help, or for a wrong flag, which has been reported on standard error.
std::optional<int> ReadCommandLine(int argc, const char* const* argv, WorkerFlags* flags);

}  // namespace dp::worker
