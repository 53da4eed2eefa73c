#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/library/init_method.h"

namespace dp::library {

// An address of one of this host's interfaces, in digits.
struct InterfaceAddress {
  std::string interface;
  std::string digits;
};

// All that says where ranks on other hosts reach this one, best first.
struct AddressHints {
  std::optional<std::string> chosen;      // DP_ADDRESS, a name or digits
  std::string mpi_interfaces;             // OMPI_MCA_btl_tcp_if_include: names and IPv4 networks
  std::vector<std::string> of_host_name;  // in digits, without loopback
  std::vector<InterfaceAddress> own;      // of interfaces that are up, without loopback; IPv4 first
};

// The address for ranks on other hosts. Errors: FailedPrecondition the host has none. Pure.
absl::StatusOr<std::string> AddressForOtherHosts(const AddressHints& hints);

// The hints of this host. Resolving its name may take seconds.
AddressHints HintsOfThisHost(const Variables& variables);

}  // namespace dp::library
