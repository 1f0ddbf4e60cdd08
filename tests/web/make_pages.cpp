// make_pages FOLDER [small]: reports of synthetic steps, for the tests of the page, and the tape of one.
#include <iostream>
#include <string>

#include "page_template.h"
#include "plan/file/disk.h"
#include "plan/file/file.h"
#include "report/page.h"
#include "synthetic/graphs.h"

namespace {

using namespace retrace;

constexpr const char* kHostile =
    "</script><script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>&amp;";

void name(plan::Graph& graph) {
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    graph.ops[o].module = "blocks." + std::to_string(o / 30) + (o % 2 == 0 ? ".attention" : ".mlp");
    graph.ops[o].outputs = {{{4, 256, static_cast<int64_t>(o)}, "float32", "cpu"}};
  }
}

void write(const plan::Graph& graph, const std::string& title, int rungs, const std::string& path) {
  report::PageOptions options;
  options.title = title;
  options.version = "test";
  options.rungs = rungs;
  plan::write_whole("make_pages", path, report::page(cli::page_template(), report::page_data(graph, options)));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string folder = std::string(argv[1]) + "/";
  plan::Graph small = plan::synthetic_transformer(6);
  name(small);
  plan::save(small, folder + "small.tape");
  write(small, "small.tape", 8, folder + "small.html");
  plan::Graph hostile = plan::synthetic_transformer(2);
  for (plan::Op& op : hostile.ops) op.name = op.module = kHostile;
  write(hostile, kHostile, 4, folder + "hostile.html");
  write(plan::Graph(), "empty.tape", 4, folder + "empty.html");
  if (argc > 2) return 0;
  plan::Graph large = plan::synthetic_transformer(670);
  name(large);
  write(large, "large.tape", 6, folder + "large.html");
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
