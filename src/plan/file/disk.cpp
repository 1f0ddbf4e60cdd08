#include "plan/file/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include <retrace/errors.h>

namespace retrace::plan {
namespace {

[[noreturn]] void fail(const char* function, const std::string& path, const std::string& what) {
  throw UsageError("[" + std::string(function) + "] '" + path + "': " + what);
}

std::string reason(int error) { return std::generic_category().message(error); }

class File {
 public:
  File(const std::string& path, int flags) : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool is_open() const { return descriptor_ >= 0; }

  // All of the content; 0, or what went wrong.
  int put(std::string_view content) const {
    while (!content.empty()) {
      const ssize_t written = ::write(descriptor_, content.data(), content.size());
      if (written < 0 && errno != EINTR) return errno;
      if (written > 0) content.remove_prefix(static_cast<size_t>(written));
    }
    return ::fsync(descriptor_) == 0 ? 0 : errno;
  }

  // As many bytes as there are, up to `size`; 0, or what went wrong.
  int get(char* to, size_t size, size_t& got) const {
    for (got = 0; got < size;) {
      const ssize_t count = ::read(descriptor_, to + got, size - got);
      if (count < 0 && errno != EINTR) return errno;
      if (count == 0) return 0;
      if (count > 0) got += static_cast<size_t>(count);
    }
    return 0;
  }

 private:
  int descriptor_;
};

// Removes the temporary file unless it has taken its place.
struct Remover {
  explicit Remover(std::string p) : path(std::move(p)) {}
  ~Remover() {
    if (armed) ::unlink(path.c_str());
  }
  Remover(const Remover&) = delete;
  Remover& operator=(const Remover&) = delete;
  std::string path;
  bool armed = false;
};

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return path + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
}

}  // namespace

std::string read_whole(const char* function, const std::string& path, std::string_view magic) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    fail(function, path, "cannot be opened (" + reason(errno) + "), so there is nothing to read. Check the path.");
  // A pipe or a device has no size to keep memory in proportion to.
  if (!S_ISREG(info.st_mode)) fail(function, path, "is not a regular file, so it is not read. Check the path.");
  const File file(path, O_RDONLY);
  if (!file.is_open())
    fail(function, path, "cannot be opened (" + reason(errno) + "), so there is nothing to read. Check the path.");
  std::string content(magic.size(), '\0');
  size_t got = 0;
  int error = file.get(content.data(), content.size(), got);
  content.resize(got);
  if (error == 0 && content == magic) {
    content.resize(std::max(got, static_cast<size_t>(info.st_size)));
    error = file.get(content.data() + magic.size(), content.size() - magic.size(), got);
    content.resize(magic.size() + got);
  }
  if (error != 0) fail(function, path, "cannot be read (" + reason(error) + "). Check the disk.");
  return content;
}

void write_whole(const char* function, const std::string& path, std::string_view content) {
  const auto refuse = [&](const std::string& what) {
    fail(function, path, what + ", so nothing was written. Choose another path, or make room there.");
  };
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) refuse("is not a regular file");
  Remover temporary(temporary_name(path));
  {
    const File file(temporary.path, O_WRONLY | O_CREAT | O_EXCL);
    if (!file.is_open()) refuse("cannot be written (" + reason(errno) + ")");
    temporary.armed = true;
    if (const int error = file.put(content)) refuse("cannot be written (" + reason(error) + ")");
  }
  if (std::rename(temporary.path.c_str(), path.c_str()) != 0) refuse("cannot be replaced (" + reason(errno) + ")");
  temporary.armed = false;
}

}  // namespace retrace::plan
