#include "plan/bound/mincut.h"

// GCC 12 takes boost::optional inside Boost.Graph's edge iterators for uninitialised, wherever they are instantiated.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

namespace retrace::plan {
namespace {

// Capacities are whole numbers, so that a cut is exact; rounded down, so that it stays a lower bound. The sum of all
// operators' seconds is 2^40, and nothing is worth more than twice that: prices above are as good as infinite.
constexpr double kTotal = 1099511627776.0;
constexpr int64_t kInfinite = int64_t{1} << 41;

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;

struct Vertex {
  boost::default_color_type color = boost::white_color;
  int64_t distance = 0;
  Traits::edge_descriptor predecessor;
};

struct Edge {
  int64_t capacity = 0, residual = 0;
  Traits::edge_descriptor reverse;
};

using Flow = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Vertex, Edge>;

}  // namespace

struct MinCut::Network {
  const Graph& graph;
  const Lifetimes& lifetimes;
  Flow flow;
  double scale = 1;
  size_t source = 0, sink = 1;
  std::vector<size_t> op_vertex, value_vertex;  // 0 (the source): not in the network
  std::vector<ValueId> asked, between;          // values that must be available, and that may have to be
  std::vector<Traits::edge_descriptor> asked_edge, between_edge;

  Network(const Graph& g, const Lifetimes& t)
      : graph(g), lifetimes(t), op_vertex(g.ops.size()), value_vertex(g.values.size()) {
    double seconds = 0;
    for (const Op& op : g.ops) seconds += op.seconds;
    scale = seconds > 0 ? kTotal / seconds : 1;
    find_vertices();
    connect();
  }

  // Only what a rebuild of something asked for can come across.
  void find_vertices() {
    size_t vertices = 2;
    std::vector<OpId> work;
    const auto need_op = [&](OpId o) {
      if (op_vertex[at(o)] != 0) return;
      op_vertex[at(o)] = vertices++;
      work.push_back(o);
    };
    for (size_t v = 0; v < graph.values.size(); ++v) {
      if (!lifetimes.asked(static_cast<ValueId>(v))) continue;
      asked.push_back(static_cast<ValueId>(v));
      need_op(graph.values[v].producer);
    }
    while (!work.empty()) {
      const Op& op = graph.ops[at(work.back())];
      work.pop_back();
      for (const Arg& arg : op.args) {
        const ValueId p = arg.value;
        if (arg.shape_only || lifetimes.asked(p) || lifetimes.free(p) || value_vertex[at(p)] != 0) continue;
        value_vertex[at(p)] = vertices++;
        between.push_back(p);
        need_op(graph.values[at(p)].producer);
      }
    }
    flow = Flow(vertices);
  }

  Traits::edge_descriptor add(size_t from, size_t to, int64_t capacity) {
    const auto edge = boost::add_edge(from, to, flow).first;
    const auto back = boost::add_edge(to, from, flow).first;
    flow[edge].capacity = capacity;
    flow[edge].reverse = back;
    flow[back].reverse = edge;
    return edge;
  }

  void connect() {
    for (size_t o = 0; o < graph.ops.size(); ++o) {
      if (op_vertex[o] == 0) continue;
      add(op_vertex[o], sink, static_cast<int64_t>(least_seconds(graph.ops[o]) * scale));
      for (const Arg& arg : graph.ops[o].args) {
        if (!arg.shape_only && value_vertex[at(arg.value)] != 0)
          add(op_vertex[o], value_vertex[at(arg.value)], kInfinite);
      }
    }
    for (const ValueId v : asked) asked_edge.push_back(add(source, op_vertex[at(graph.values[at(v)].producer)], 0));
    for (const ValueId v : between)
      between_edge.push_back(add(value_vertex[at(v)], op_vertex[at(graph.values[at(v)].producer)], 0));
  }

  int64_t capacity(ValueId v, const std::vector<double>& prices) const {
    if (!lifetimes.keepable(v)) return kInfinite;
    const double scaled = prices[at(v)] * scale;
    return scaled < static_cast<double>(kInfinite) ? static_cast<int64_t>(scaled) : kInfinite;
  }

  bool on_source_side(size_t vertex) const { return flow[vertex].color == boost::black_color; }
  bool runs_again(ValueId v) const { return on_source_side(op_vertex[at(graph.values[at(v)].producer)]); }
};

MinCut::MinCut(const Graph& graph, const Lifetimes& lifetimes, Effort* effort)
    : effort_(effort), network_(std::make_unique<Network>(graph, lifetimes)) {}
MinCut::~MinCut() = default;

double MinCut::solve(const std::vector<double>& keep_prices) {
  Network& n = *network_;
  kept_.clear();
  if (effort_ != nullptr) effort_->spend(static_cast<int64_t>(boost::num_vertices(n.flow)));
  for (size_t i = 0; i < n.asked.size(); ++i) n.flow[n.asked_edge[i]].capacity = n.capacity(n.asked[i], keep_prices);
  for (size_t i = 0; i < n.between.size(); ++i)
    n.flow[n.between_edge[i]].capacity = n.capacity(n.between[i], keep_prices);
  int64_t cost = 0;
  if (!n.asked.empty()) {
    cost = boost::boykov_kolmogorov_max_flow(n.flow, boost::get(&Edge::capacity, n.flow),
                                             boost::get(&Edge::residual, n.flow), boost::get(&Edge::reverse, n.flow),
                                             boost::get(&Vertex::predecessor, n.flow),
                                             boost::get(&Vertex::color, n.flow), boost::get(&Vertex::distance, n.flow),
                                             boost::get(boost::vertex_index, n.flow), n.source, n.sink);
  }
  for (const ValueId v : n.asked) {
    if (!n.runs_again(v)) kept_.push_back(v);
  }
  for (const ValueId v : n.between) {
    if (n.on_source_side(n.value_vertex[at(v)]) && !n.runs_again(v)) kept_.push_back(v);
  }
  return static_cast<double>(cost) / n.scale;
}

}  // namespace retrace::plan
