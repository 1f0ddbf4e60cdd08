// "Did you mean ...?"
#pragma once

#include <string>
#include <vector>

namespace retrace::cli {

// Ends a sentence: "; did you mean 'gpt'?" when a known name is near, else ".". Near is a heuristic: edits, two swapped
// letters being one, up to a third of the longer name's length.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known);

// "a, b, c".
std::string join(const std::vector<std::string>& names);

// Throws BadInput if it is not: "[trace] no loss is called 'men', nothing was run; did you mean 'mean'? The losses are
// ...".
void check_is_known(const std::string& name, const std::vector<std::string>& known, const std::string& command,
                    const std::string& noun, const std::string& plural);

}  // namespace retrace::cli
