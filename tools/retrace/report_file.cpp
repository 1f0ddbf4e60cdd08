#include "report_file.h"

#include <string_view>

#include "page_template.h"
#include "plan/file/disk.h"
#include "progress.h"
#include "report/page.h"

namespace retrace::cli {

size_t write_report(const plan::Graph& graph, const std::string& title, const std::optional<NamedPlan>& plan, int rungs,
                    const std::string& path) {
  const std::string_view page_without_data = page_template();  // before the work: there may be none
  report::PageOptions options;
  options.title = title;
  options.version = RETRACE_VERSION;
  options.rungs = rungs;
  if (plan) {
    options.plan = plan->plan;
    options.plan_name = plan->name;
  }
  Progress progress(options.parts());
  options.progress = [&](const std::string& what) {
    progress.show(what);
    progress.advance();
  };
  const std::string page = report::page(page_without_data, report::page_data(graph, options));
  plan::write_whole("report", path, page);
  return page.size();
}

}  // namespace retrace::cli
