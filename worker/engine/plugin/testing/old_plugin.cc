// A plug-in of another version of the interface, of which only the first field is known.

#include <dp/plugin_abi.h>

extern "C" const DpPlugin* dp_plugin() {
  static const DpPlugin plugin = {.abi = DP_PLUGIN_ABI + 1, .kind_count = 0, .kinds = nullptr};
  return &plugin;
}
