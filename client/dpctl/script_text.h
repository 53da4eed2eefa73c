#pragma once

#include <string>

namespace dp::ctl {

// The text of a script, as dpctl finds it in `dir`; empty where it is not there, too large, or no
// Python script by its name.
std::string ScriptText(const std::string& dir, const std::string& script);

}  // namespace dp::ctl
