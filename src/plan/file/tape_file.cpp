// The tape file, version 3; earlier ones are read, too. docs/tape-format.md explains it, byte by byte.
//
// A hostile file cannot make us hold much more than itself: the worst record, a value of 6 bytes with a name of 255,
// becomes some 60 times as large.

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <unordered_map>

#include <retrace/errors.h>

#include "plan/file/bytes.h"
#include "plan/file/disk.h"
#include "plan/file/file.h"

namespace retrace::plan {
namespace {

// The line end tells when a transfer "as text" has changed it.
constexpr std::string_view kMagic("RTTAPE\r\n", 8);
constexpr uint32_t kVersion = 3;
constexpr size_t kHeaderBytes = 20;  // magic, version, length of the body
constexpr size_t kChecksumBytes = 8;

// Of a value. In version 1, kHasWays meant one way whose kind was not told, and kLossy that it was lossy.
constexpr uint8_t kExternal = 1, kHasWays = 2, kLossy = 4, kNoGradient = 8;
constexpr uint8_t kRecords = 1;  // of a backward
constexpr const char* kUntoldKind = "encoded";

uint64_t checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

class TapeWriter {
 public:
  explicit TapeWriter(std::string& to) : out_(to) {}

  void body(const Graph& graph) {
    out_.fixed(graph.signature);
    out_.real(graph.seconds);
    out_.amount(graph.start_bytes);
    out_.amount(graph.weight_bytes);
    names(graph);
    out_.count(graph.values.size());
    for (const Value& v : graph.values) value(v);
    out_.count(graph.ops.size());
    for (const Op& o : graph.ops) op(o);
    out_.count(graph.handles.size());
    for (const ValueId v : graph.handles) out_.id(v);
    events(graph);
    backward_ops(graph);
    out_.count(graph.backwards.size());
    for (const Backward& backward : graph.backwards) {
      out_.amount(backward.begin);
      out_.amount(backward.end);
      out_.byte(backward.records ? kRecords : 0);
    }
  }

 private:
  // Each text once, in the order of their first use. The first is empty: no name.
  void names(const Graph& graph) {
    std::vector<std::string_view> order;
    const auto add = [&](std::string_view text) {
      if (names_.try_emplace(text, order.size()).second) order.push_back(text);
    };
    add("");
    for (const Value& v : graph.values) {
      add(v.name);
      for (const Way& way : v.ways) add(way.kind);
    }
    for (const Op& o : graph.ops) {
      add(o.name);
      add(o.module);
      for (const Output& output : o.outputs) {
        add(output.dtype);
        add(output.device);
      }
    }
    for (const BackwardOp& o : graph.backward_ops) add(o.name);
    out_.count(order.size());
    for (const std::string_view text : order) out_.text(text);
  }

  void name(std::string_view text) { out_.count(names_.at(text)); }

  void value(const Value& v) {
    out_.amount(v.bytes);
    out_.id(v.storage);
    out_.id(v.producer);
    out_.byte(static_cast<uint8_t>((v.external ? kExternal : 0) | (v.ways.empty() ? 0 : kHasWays) |
                                   (v.has_gradient ? 0 : kNoGradient)));
    name(v.name);
    if (v.ways.empty()) return;
    out_.count(v.ways.size());
    for (const Way& way : v.ways) {
      name(way.kind);
      out_.byte(way.lossy ? kLossy : 0);
      out_.amount(way.bytes);
      out_.real(way.store_seconds);
      out_.real(way.load_seconds);
    }
  }

  void op(const Op& o) {
    name(o.name);
    out_.real(o.seconds);
    out_.real(o.shortcut_seconds);
    out_.amount(o.working_bytes);
    out_.count(o.args.size());
    for (size_t i = 0; i < o.args.size(); ++i) {
      const Arg& arg = o.args[i];
      out_.varint(static_cast<uint64_t>(arg.value) << 2 | (arg.has_gradient ? 0 : 2) | (arg.shape_only ? 1 : 0));
      out_.id(arg.becomes);
      out_.amount(o.read_bytes.empty() ? 0 : o.read_bytes[i] + 1);
    }
    out_.count(o.fresh.size());
    for (const ValueId v : o.fresh) out_.id(v);
    name(o.module);
    out_.count(o.outputs.size());
    for (const Output& output : o.outputs) {
      name(output.dtype);
      name(output.device);
      out_.count(output.shape.size());
      for (const int64_t size : output.shape) out_.amount(size);
    }
  }

  void backward_ops(const Graph& graph) {
    out_.count(graph.backward_ops.size());
    int32_t before = kNone;
    for (const BackwardOp& o : graph.backward_ops) {
      name(o.name);
      out_.real(o.seconds);
      out_.difference(before, o.after_event);
      before = o.after_event;
    }
  }

  // Amounts change little from one event to the next, so their differences are short.
  void events(const Graph& graph) {
    out_.count(graph.events.size());
    Event before;
    for (const Event& e : graph.events) {
      out_.byte(static_cast<uint8_t>(e.kind));
      out_.id(e.id);
      out_.difference(before.other_bytes, e.other_bytes);
      out_.difference(e.other_bytes, e.other_peak);
      out_.difference(before.gradient_bytes, e.gradient_bytes);
      before = e;
    }
  }

  ByteWriter out_;
  std::unordered_map<std::string_view, size_t> names_;
};

template <class Fail>
class TapeReader {
 public:
  TapeReader(std::string_view body, uint32_t version, const Fail& fail)
      : in_(body, fail), version_(version), fail_(fail) {}

  Graph body() {
    Graph graph;
    graph.signature = in_.fixed();
    graph.seconds = in_.real();
    graph.start_bytes = in_.amount();
    graph.weight_bytes = in_.amount();
    names_.resize(in_.count(1));
    for (std::string_view& name : names_) name = in_.text(kLongestName);
    graph.values.resize(in_.count(4));
    for (Value& v : graph.values) value(v);
    graph.ops.resize(in_.count(20));
    for (Op& o : graph.ops) op(o);
    graph.handles.resize(in_.count(1));
    for (ValueId& v : graph.handles) v = in_.id();
    events(graph);
    if (version_ > 1) backward_ops(graph);
    if (version_ > 2) backwards(graph);
    if (in_.left() > 0) fail_("has " + std::to_string(in_.left()) + " bytes too many");
    return graph;
  }

 private:
  void value(Value& v) {
    v.bytes = in_.amount();
    v.storage = in_.id();
    v.producer = in_.id();
    const uint8_t flags = in_.byte();
    const int known = kExternal | kHasWays | (version_ == 1 ? kLossy : 0) | (version_ > 2 ? kNoGradient : 0);
    if ((flags & ~known) != 0) fail_("holds a value of unknown flags");
    v.external = (flags & kExternal) != 0;
    v.has_gradient = (flags & kNoGradient) == 0;
    if (version_ > 1) v.name = name();
    if ((flags & kHasWays) == 0) return;
    v.ways.resize(version_ == 1 ? 1 : in_.count(19));
    for (Way& way : v.ways) {
      way.kind = version_ == 1 ? kUntoldKind : name();
      const uint8_t lossy = version_ == 1 ? flags & kLossy : in_.byte();
      if ((lossy & ~kLossy) != 0) fail_("holds a way of unknown flags");
      way.lossy = lossy != 0;
      way.bytes = in_.amount();
      way.store_seconds = in_.real();
      way.load_seconds = in_.real();
    }
  }

  std::string_view name() {
    const uint64_t position = in_.varint();
    if (position >= names_.size()) fail_("refers to a name that is not there");
    return names_[static_cast<size_t>(position)];
  }

  void op(Op& o) {
    o.name = name();
    o.seconds = in_.real();
    o.shortcut_seconds = in_.real();
    o.working_bytes = in_.amount();
    args(o);
    o.fresh.resize(in_.count(1));
    for (ValueId& v : o.fresh) v = in_.id();
    if (version_ == 1) return;
    o.module = name();
    o.outputs.resize(in_.count(3));
    for (Output& output : o.outputs) {
      output.dtype = type();
      output.device = type();
      output.shape.resize(in_.count(1));
      for (int64_t& size : output.shape) size = in_.amount();
    }
  }

  void args(Op& o) {
    o.args.resize(in_.count(2));
    const int flags = version_ > 2 ? 2 : 1;
    for (size_t i = 0; i < o.args.size(); ++i) {
      Arg& arg = o.args[i];
      const uint64_t packed = in_.varint();
      if (packed >> flags > uint64_t{std::numeric_limits<int32_t>::max()}) fail_("holds an id of more than 31 bits");
      arg.value = static_cast<ValueId>(packed >> flags);
      arg.shape_only = (packed & 1) != 0;
      arg.has_gradient = version_ <= 2 || (packed & 2) == 0;
      arg.becomes = in_.id();
      const int64_t read = version_ > 2 ? in_.amount() : 0;
      if (i == 0 && read > 0) o.read_bytes.resize(o.args.size());
      if ((read > 0) == o.read_bytes.empty()) fail_("tells of some arguments how much is read, and not of others");
      if (read > 0) o.read_bytes[i] = read - 1;
    }
  }

  // Short, so that it takes no memory beside the record.
  std::string_view type() {
    const std::string_view text = name();
    if (text.size() > kLongestType) fail_("holds a type of " + std::to_string(text.size()) + " bytes");
    return text;
  }

  void backward_ops(Graph& graph) {
    graph.backward_ops.resize(in_.count(10));
    int64_t before = kNone;
    for (BackwardOp& o : graph.backward_ops) {
      o.name = name();
      o.seconds = in_.real();
      before = in_.moved(before);
      if (before < kNone || before > std::numeric_limits<int32_t>::max()) fail_("holds an event that is not there");
      o.after_event = static_cast<int32_t>(before);
    }
  }

  void backwards(Graph& graph) {
    graph.backwards.resize(in_.count(3));
    for (Backward& backward : graph.backwards) {
      for (int32_t* const event : {&backward.begin, &backward.end}) {
        const int64_t read = in_.amount();
        if (read > std::numeric_limits<int32_t>::max()) fail_("holds a backward of events that are not there");
        *event = static_cast<int32_t>(read);
      }
      const uint8_t records = in_.byte();
      if ((records & ~kRecords) != 0) fail_("holds a backward of unknown flags");
      backward.records = records != 0;
    }
  }

  void events(Graph& graph) {
    graph.events.resize(in_.count(5));
    Event before;
    for (Event& e : graph.events) {
      e.kind = static_cast<EventKind>(in_.byte());  // check() refuses what is none
      e.id = in_.id();
      e.other_bytes = in_.moved(before.other_bytes);
      e.other_peak = in_.moved(e.other_bytes);
      e.gradient_bytes = in_.moved(before.gradient_bytes);
      before = e;
    }
  }

  ByteReader<Fail> in_;
  const uint32_t version_;
  const Fail& fail_;
  std::vector<std::string_view> names_;
};

// The body, once everything around it is as it should be.
template <class Fail>
std::string_view unwrap(std::string_view bytes, uint32_t& version, const Fail& fail) {
  const bool is_short = bytes.size() < kMagic.size();
  if (bytes.substr(0, kMagic.size()) != kMagic.substr(0, bytes.size())) fail("is not a Retrace tape");
  if (is_short || bytes.size() < kHeaderBytes) fail("is cut short within its header");
  ByteReader header(bytes.substr(kMagic.size()), fail);
  version = static_cast<uint32_t>(header.fixed(4));
  if (version > kVersion) {
    fail("is of version " + std::to_string(version) + ", and this Retrace reads up to " + std::to_string(kVersion));
  }
  if (version == 0) fail("is of version 0, which does not exist");
  const uint64_t length = header.fixed();
  const size_t around = kHeaderBytes + kChecksumBytes;
  if (bytes.size() < around || length > bytes.size() - around) fail("is cut short");
  if (length < bytes.size() - around) fail("has more bytes than it says");
  const std::string_view checked = bytes.substr(0, bytes.size() - kChecksumBytes);
  ByteReader last(bytes.substr(checked.size()), fail);
  if (last.fixed() != checksum(checked)) fail("is damaged: its checksum is not that of its content");
  return checked.substr(kHeaderBytes);
}

}  // namespace

std::string to_bytes(const Graph& graph) {
  check(graph);
  std::string bytes(kMagic);
  ByteWriter out(bytes);
  out.fixed(kVersion, 4);
  out.fixed(0);
  TapeWriter(bytes).body(graph);
  std::string length;
  ByteWriter(length).fixed(bytes.size() - kHeaderBytes);
  bytes.replace(kHeaderBytes - length.size(), length.size(), length);
  out.fixed(checksum(bytes));
  return bytes;
}

Graph from_bytes(std::string_view bytes, const std::string& name) {
  const auto fail = [&](const std::string& what) {
    throw UsageError("[load_graph] '" + name + "': " + what +
                     ", so the step it describes is not known. Write it again with the Retrace that is to read it.");
  };
  uint32_t version = 0;
  const std::string_view body = unwrap(bytes, version, fail);
  Graph graph = TapeReader(body, version, fail).body();
  try {
    check(graph);
  } catch (const UsageError& error) {
    throw UsageError("[load_graph] '" + name + "': its content is impossible: " + error.what());
  }
  return graph;
}

void save(const Graph& graph, const std::string& path) { write_whole("save", path, to_bytes(graph)); }

Graph load_graph(const std::string& path) { return from_bytes(read_whole("load_graph", path, kMagic), path); }

}  // namespace retrace::plan
