#pragma once

#include <string>
#include <vector>

namespace dp::worker {

// Google's TPU chips of this host, by their places on the PCI bus, in order: "0000:00:04.0 TPU
// v5e". `sys_dir` is /sys but in tests.
std::vector<std::string> ListTpus(const std::string& sys_dir);

// The processors of this host.
struct HostCpus {
  std::string model;  // as "Intel(R) Xeon(R) Platinum 8481C"; empty: not known
  int count = 0;      // that this process may use
};
// `proc_dir` is /proc but in tests.
HostCpus ReadCpus(const std::string& proc_dir);

// The output of --list-devices: a part for each kind of device, in order of preference. The last
// line says which one native training takes. It takes no TPUs: programs of users reach those. Pure.
std::string DeviceLines(const std::vector<std::string>& tpus, const std::string& gpu_lines,
                        bool has_gpus, const HostCpus& cpus);

}  // namespace dp::worker
