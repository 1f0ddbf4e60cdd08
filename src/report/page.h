// The report: one HTML page that needs nothing else, made of a template (web/) and a tape's data.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "plan/graph/graph.h"
#include "plan/solve/plan.h"

namespace retrace::report {

struct PageOptions {
  std::string title;               // what the page is about, as people call it: the tape's file name
  std::string version;             // of the program that writes it
  std::optional<plan::Plan> plan;  // to be shown beside the policies; must be for this tape
  std::string plan_name;
  int rungs = 24;  // of the ladder of budgets
  // Called before each part of the work, `parts()` times in all.
  std::function<void(const std::string& what)> progress = [](const std::string&) {};

  int parts() const { return rungs + 3; }
};

// What the page shows, as JSON: docs/report.md.
std::string page_data(const plan::Graph& graph, const PageOptions& options);

// The template with the data in it, written so that no content can end the element it stands in.
std::string page(std::string_view page_template, const std::string& data);

}  // namespace retrace::report
