// Whole files, read and replaced. Errors are UsageErrors: `[function] 'path': what, consequence, what to do`.
#pragma once

#include <string>
#include <string_view>

namespace retrace::plan {

// Reads a regular file of which the first bytes are `magic` (if any is asked for): a foreign file is refused before its
// content is read.
std::string read_whole(const char* function, const std::string& path, std::string_view magic = {});

// Replaces `path`, or leaves it as it was and throws. What is not a regular file is not replaced.
void write_whole(const char* function, const std::string& path, std::string_view content);

}  // namespace retrace::plan
