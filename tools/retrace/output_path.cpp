#include "output_path.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "commands.h"

namespace retrace::cli {

void check_writable(const std::string& command, const std::string& path, const std::string& option) {
  namespace fs = std::filesystem;
  const auto refuse = [&](const std::string& what) {
    throw BadInput("[" + command + "] '" + path + "' " + what + ", nothing was run. Choose another path with " +
                   option + ".");
  };
  if (path.empty()) refuse("is no path");
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) refuse("is not a regular file");
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (!fs::is_directory(folder, ignored)) refuse("cannot be written: there is no folder '" + folder.string() + "'");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    refuse("cannot be written (" + std::generic_category().message(errno) + ")");
}

}  // namespace retrace::cli
