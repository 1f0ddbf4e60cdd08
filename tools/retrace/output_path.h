// Whether a file can be written, asked before the work that it is to hold.
#pragma once

#include <string>

namespace retrace::cli {

// Throws BadInput in the name of `command` if there is something at `path` that is not a regular file, or if its folder
// is missing or cannot be written to. `option`: by which the path was given.
void check_writable(const std::string& command, const std::string& path, const std::string& option = "-o");

}  // namespace retrace::cli
