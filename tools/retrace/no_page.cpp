// In the place of the page where node or the page's packages were missing when this was built.
#include "commands.h"
#include "page_template.h"

namespace retrace::cli {

std::string_view page_template() {
  throw BadInput(
      "[report] this retrace was built without the page: node, or what npm installs into web/node_modules, was "
      "missing. "
      "Nothing was written. Run scripts/setup and build again; --perfetto works without.");
}

}  // namespace retrace::cli
