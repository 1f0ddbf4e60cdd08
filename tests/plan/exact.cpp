#include "plan/exact.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <unistd.h>

#include "plan/graph/lifetimes.h"

namespace retrace::plan {
namespace {

std::string name(char kind, size_t id) { return kind + std::to_string(id); }
std::string held(size_t v, int way) { return name('h', v) + "_" + std::to_string(way); }

// Variables, 0 or 1: h v_w is held in way w, a v is available, o op is run again.
class Model {
 public:
  Model(const Graph& graph, int64_t budget_bytes) : graph_(graph), lifetimes_(graph), budget_(budget_bytes) {}

  bool write(const std::string& path) {
    std::ofstream out(path);
    out.precision(17);
    out << "Minimize\n obj: 0 nothing";
    for (size_t o = 0; o < graph_.ops.size(); ++o) out << " + " << least_seconds(graph_.ops[o]) << " " << name('o', o);
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      for (int way = 0; way < ways(v); ++way) out << " + " << graph_.values[v].seconds_in(way) << " " << held(v, way);
    }
    out << "\nSubject To\n";
    availability(out);
    const bool possible = memory(out);
    out << "Binary\n nothing\n";
    for (size_t o = 0; o < graph_.ops.size(); ++o) out << " " << name('o', o) << "\n";
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      for (int way = 0; way < ways(v); ++way) out << " " << held(v, way) << "\n";
      out << " " << name('a', v) << "\n";
    }
    out << "End\n";
    return possible;
  }

 private:
  int ways(size_t v) const { return lifetimes_.keepable(static_cast<ValueId>(v)) ? graph_.values[v].way_count() : 0; }

  void availability(std::ostream& out) const {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (lifetimes_.asked(id)) out << " " << name('a', v) << " = 1\n";
      if (lifetimes_.free(id) && !lifetimes_.asked(id)) continue;
      for (int way = 0; way < ways(v); ++way) out << " + " << held(v, way);
      out << " + " << name('o', at(graph_.values[v].producer)) << " - " << name('a', v) << " >= 0\n";
    }
    for (size_t o = 0; o < graph_.ops.size(); ++o) {
      std::set<ValueId> reads;
      for (const Arg& arg : graph_.ops[o].args) {
        if (!arg.shape_only && !lifetimes_.free(arg.value)) reads.insert(arg.value);
      }
      for (const ValueId v : reads) out << " " << name('a', at(v)) << " - " << name('o', o) << " >= 0\n";
    }
  }

  bool memory(std::ostream& out) const {
    std::vector<std::ostringstream> rows(lifetimes_.events());
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      for (int way = 0; way < ways(v); ++way) {
        for (const Span& s : lifetimes_.spans(id, way)) {
          for (int32_t t = s.begin; t < s.end; ++t)
            rows[at(t)] << " + " << graph_.values[v].bytes_in(way) << " " << held(v, way);
        }
      }
    }
    std::set<std::string> seen;
    for (size_t t = 0; t < rows.size(); ++t) {
      const int64_t room = budget_ - lifetimes_.base()[t];
      if (room < 0) return false;
      if (rows[t].str().empty()) continue;
      const std::string row = rows[t].str() + " <= " + std::to_string(room);
      if (seen.insert(row).second) out << row << "\n";
    }
    return true;
  }

  const Graph& graph_;
  const Lifetimes lifetimes_;
  const int64_t budget_;
};

}  // namespace

#ifdef RETRACE_CBC

bool have_exact() { return true; }

std::optional<Exact> solve_exact(const Graph& graph, int64_t budget_bytes) {
  const auto folder = std::filesystem::temp_directory_path() / ("retrace_exact_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string model = folder / "model.lp", solution = folder / "solution";
  std::optional<Exact> result;
  if (Model(graph, budget_bytes).write(model)) {
    const std::string command = std::string(RETRACE_CBC) + " " + model + " solve solution " + solution + " >/dev/null";
    if (std::system(command.c_str()) == 0) {
      std::ifstream in(solution);
      std::string line;
      std::getline(in, line);
      if (line.starts_with("Optimal")) {
        Exact exact{std::stod(line.substr(line.rfind(' '))), Choices(graph.values.size())};
        std::string number, variable;
        double value = 0, cost = 0;
        while (in >> number >> variable >> value >> cost) {
          if (value < 0.5 || variable[0] != 'h') continue;
          const size_t dash = variable.find('_');
          exact.choices[std::stoul(variable.substr(1, dash - 1))] = Choice::hold(std::stoi(variable.substr(dash + 1)));
        }
        result = std::move(exact);
      }
    }
  }
  std::filesystem::remove_all(folder);
  return result;
}

#else

bool have_exact() { return false; }
std::optional<Exact> solve_exact(const Graph&, int64_t) { return std::nullopt; }

#endif

}  // namespace retrace::plan
