#pragma once

#include <string>

namespace dp::ctl {

// The text of a script in `dir`. Empty if the file is missing or too large, or its name is not that
// of a Python script.
std::string ScriptText(const std::string& dir, const std::string& script);

}  // namespace dp::ctl
