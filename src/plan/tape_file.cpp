// The tape file, version 1. docs/tape-format.md explains it, byte by byte.
//
// A hostile file cannot make us hold much more than itself: the worst record, an operator of 20 bytes with a name of 255,
// becomes some 20 times as large.

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <unordered_map>

#include <retrace/errors.h>

#include "plan/bytes.h"
#include "plan/disk.h"
#include "plan/file.h"

namespace retrace::plan {
namespace {

// The line end tells when a transfer "as text" has changed it.
constexpr std::string_view kMagic("RTTAPE\r\n", 8);
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 20;  // magic, version, length of the body
constexpr size_t kChecksumBytes = 8;
constexpr size_t kLongestName = 255;

constexpr uint8_t kForeign = 1, kEncoded = 2, kLossy = 4;

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
  }

 private:
  // Each name once, in the order of their first use.
  void names(const Graph& graph) {
    std::vector<std::string_view> order;
    for (const Op& o : graph.ops) {
      if (o.name.size() > kLongestName) {
        throw UsageError("[save] op '" + o.name + "': its name is longer than " + std::to_string(kLongestName) +
                         " bytes, so the tape cannot be written. Register it under a shorter one.");
      }
      if (names_.try_emplace(o.name, order.size()).second) order.emplace_back(o.name);
    }
    out_.count(order.size());
    for (const std::string_view name : order) out_.text(name);
  }

  void value(const Value& v) {
    const Encoding& e = v.encoding;
    const bool encoded = e.bytes > 0 || e.encode_seconds > 0 || e.decode_seconds > 0;
    out_.amount(v.bytes);
    out_.id(v.storage);
    out_.id(v.producer);
    out_.byte(static_cast<uint8_t>((v.foreign ? kForeign : 0) | (encoded ? kEncoded : 0) | (e.lossy ? kLossy : 0)));
    if (!encoded) return;
    out_.amount(e.bytes);
    out_.real(e.encode_seconds);
    out_.real(e.decode_seconds);
  }

  void op(const Op& o) {
    out_.count(names_.at(o.name));
    out_.real(o.seconds);
    out_.real(o.shortcut_seconds);
    out_.amount(o.working_bytes);
    out_.count(o.args.size());
    for (const Arg& arg : o.args) {
      out_.varint(static_cast<uint64_t>(arg.value) << 1 | (arg.shape_only ? 1 : 0));
      out_.id(arg.becomes);
    }
    out_.count(o.fresh.size());
    for (const ValueId v : o.fresh) out_.id(v);
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
  TapeReader(std::string_view body, const Fail& fail) : in_(body, fail), fail_(fail) {}

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
    if (in_.left() > 0) fail_("has " + std::to_string(in_.left()) + " bytes too many");
    return graph;
  }

 private:
  void value(Value& v) {
    v.bytes = in_.amount();
    v.storage = in_.id();
    v.producer = in_.id();
    const uint8_t flags = in_.byte();
    if ((flags & ~(kForeign | kEncoded | kLossy)) != 0) fail_("holds a value of unknown flags");
    v.foreign = (flags & kForeign) != 0;
    v.encoding.lossy = (flags & kLossy) != 0;
    if ((flags & kEncoded) == 0) return;
    v.encoding.bytes = in_.amount();
    v.encoding.encode_seconds = in_.real();
    v.encoding.decode_seconds = in_.real();
  }

  void op(Op& o) {
    const uint64_t name = in_.varint();
    if (name >= names_.size()) fail_("refers to a name that is not there");
    o.name = names_[static_cast<size_t>(name)];
    o.seconds = in_.real();
    o.shortcut_seconds = in_.real();
    o.working_bytes = in_.amount();
    o.args.resize(in_.count(2));
    for (Arg& arg : o.args) {
      const uint64_t packed = in_.varint();
      if (packed >> 1 > uint64_t{std::numeric_limits<int32_t>::max()}) fail_("holds an id of more than 31 bits");
      arg.value = static_cast<ValueId>(packed >> 1);
      arg.shape_only = (packed & 1) != 0;
      arg.becomes = in_.id();
    }
    o.fresh.resize(in_.count(1));
    for (ValueId& v : o.fresh) v = in_.id();
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
  const Fail& fail_;
  std::vector<std::string_view> names_;
};

// The body, once everything around it is as it should be.
template <class Fail>
std::string_view unwrap(std::string_view bytes, const Fail& fail) {
  const bool is_short = bytes.size() < kMagic.size();
  if (bytes.substr(0, kMagic.size()) != kMagic.substr(0, bytes.size())) fail("is not a Retrace tape");
  if (is_short || bytes.size() < kHeaderBytes) fail("is cut short within its header");
  ByteReader header(bytes.substr(kMagic.size()), fail);
  const auto version = static_cast<uint32_t>(header.fixed(4));
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
  Graph graph = TapeReader(unwrap(bytes, fail), fail).body();
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
