#include "tape_input.h"

#include <nlohmann/json.hpp>

#include "commands.h"
#include "plan/file/file.h"

namespace retrace::cli {
namespace {

// How many bytes the code point has that begins there; 0 if none does.
size_t code_point(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const unsigned char first = byte(at);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  const size_t length = first >= 0xF0 && first < 0xF5   ? 4
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xC3 && first < 0xE0 ? 2
                                                        : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

void make_printable(std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = code_point(text, at);
    if (length == 0) text[at] = '?';
    at += length == 0 ? 1 : length;
  }
}

}  // namespace

plan::Graph read_tape(const std::string& command, const std::string& path) {
  if (path.empty())
    throw BadInput("[" + command +
                   "] no tape is named, nothing was done. Write one with retrace trace gpt -o run.tape, or with "
                   "session.save_tape(\"run.tape\").");
  plan::Graph graph = plan::load_graph(path);
  for (plan::Op& op : graph.ops) {
    make_printable(op.name);
    make_printable(op.module);
    for (plan::Output& output : op.outputs) make_printable(output.dtype);
  }
  for (plan::Value& value : graph.values) {
    make_printable(value.name);
    for (plan::Way& way : value.ways) make_printable(way.kind);
  }
  for (plan::BackwardOp& op : graph.backward_ops) make_printable(op.name);
  return graph;
}

std::string to_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace retrace::cli
