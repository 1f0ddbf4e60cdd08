// The report page without its data, as web/ builds it. CMake chooses the file that defines it: one made of the page, or
// no_page.cpp where the page could not be built.
#pragma once

#include <string_view>

namespace retrace::cli {

// Throws BadInput, with what to do, if this program was built without the page.
std::string_view page_template();

}  // namespace retrace::cli
