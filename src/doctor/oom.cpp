#include "doctor/oom.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include <retrace/errors.h>

#include "report/table.h"

namespace retrace::doctor {
namespace {

using report::human_bytes;

struct Unit {
  std::string_view name;
  double bytes;
};
// PyTorch's GiB and MiB; its MPS backend writes GB and MB and means the same powers of 1024.
constexpr std::array<Unit, 10> kUnits{{{"bytes", 1},
                                       {"TiB", 0x1p40},
                                       {"GiB", 0x1p30},
                                       {"MiB", 0x1p20},
                                       {"KiB", 0x1p10},
                                       {"GB", 0x1p30},
                                       {"MB", 0x1p20},
                                       {"KB", 0x1p10},
                                       {"B", 1},
                                       {"", 1}}};

bool is_number(char c) { return (c >= '0' && c <= '9') || c == '.'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  return text;
}

// "2.00 GiB" at the front of a text, or all of it.
std::optional<int64_t> amount_at(std::string_view text, bool all = false) {
  text = trimmed(text);
  double number = 0;
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text = trimmed(text.substr(static_cast<size_t>(after - text.data())));
  for (const Unit& unit : kUnits) {
    if (all ? text != unit.name : !text.starts_with(unit.name)) continue;
    const double bytes = std::round(number * unit.bytes);
    return std::isfinite(bytes) && bytes < 0x1p62 ? std::optional(static_cast<int64_t>(bytes)) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<int64_t> amount_after(std::string_view text, std::string_view phrase) {
  const size_t at = text.find(phrase);
  return at == std::string_view::npos ? std::nullopt : amount_at(text.substr(at + phrase.size()));
}

// "77.1 GiB already allocated": the number that stands before a phrase.
std::optional<int64_t> amount_before(std::string_view text, std::string_view phrase) {
  const size_t at = text.find(phrase);
  if (at == std::string_view::npos) return std::nullopt;
  size_t begin = at;
  while (begin > 0 && !is_number(text[begin - 1])) {
    if (at - begin > 8) return std::nullopt;  // a unit is shorter
    --begin;
  }
  while (begin > 0 && is_number(text[begin - 1])) --begin;
  return amount_at(text.substr(begin, at - begin), true);
}

std::optional<int64_t> first_of(std::initializer_list<std::optional<int64_t>> amounts) {
  for (const auto& amount : amounts) {
    if (amount) return amount;
  }
  return std::nullopt;
}

OomMessage read_gpu(std::string_view text) {
  OomMessage m{.source = OomSource::gpu};
  m.tried_bytes = amount_after(text, "Tried to allocate ");
  m.capacity_bytes = first_of({amount_before(text, " total capacity"), amount_after(text, "total capacity of "),
                               amount_after(text, "total capacty of ")});
  m.allocated_bytes = first_of({amount_before(text, " already allocated"),
                                amount_before(text, " is allocated by PyTorch"), amount_before(text, " allowed; ")});
  m.free_bytes = first_of({amount_before(text, " is free"), amount_before(text, " free;")});
  m.cached_bytes =
      first_of({amount_before(text, " is reserved by PyTorch but unallocated"), amount_before(text, " cached")});
  if (const auto reserved = amount_before(text, " reserved in total"); reserved && m.allocated_bytes) {
    m.cached_bytes = std::max<int64_t>(*reserved - *m.allocated_bytes, 0);
  }
  if (m.capacity_bytes && m.free_bytes && m.allocated_bytes && m.cached_bytes) {
    m.outside_bytes = std::max<int64_t>(*m.capacity_bytes - *m.free_bytes - *m.allocated_bytes - *m.cached_bytes, 0);
  }
  return m;
}

OomMessage read_mps(std::string_view text) {
  OomMessage m{.source = OomSource::mps};
  m.tried_bytes = amount_after(text, "Tried to allocate ");
  m.allocated_bytes = amount_after(text, "MPS allocated: ");
  m.capacity_bytes = amount_after(text, "max allowed: ");
  m.outside_bytes = amount_after(text, "other allocations: ");
  return m;
}

OomMessage read_cpu(std::string_view text) {
  OomMessage m{.source = OomSource::cpu};
  m.tried_bytes = amount_after(text, "you tried to allocate ");
  return m;
}

void read_owners(OomMessage& m, std::string_view text, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const auto bytes = amount_after(text, name))
      m.owners.push_back({std::string(name.substr(0, name.size() - 1)), *bytes});
  }
}

OomMessage read_budget(std::string_view text) {
  OomMessage m{.source = OomSource::retrace_budget};
  m.needed_bytes = amount_after(text, "needs at least ");
  m.capacity_bytes = amount_after(text, "its budget is ");
  const size_t at = text.find("fullest moment of such a step: ");
  if (at != std::string_view::npos) {
    read_owners(m, text.substr(at), {"weights ", "gradients ", "(optimizer state, data) ", "the step itself "});
  }
  return m;
}

OomMessage read_limit(std::string_view text) {
  OomMessage m{.source = OomSource::retrace_limit};
  m.tried_bytes = amount_after(text, "an allocation of ");
  m.allocated_bytes = amount_after(text, "bring the live bytes from ");
  m.capacity_bytes = amount_after(text, "above the limit of ");
  const size_t at = text.find("Held by: ");
  if (at != std::string_view::npos) {
    read_owners(m, text.substr(at), {"weights ", "gradients ", "kept ", "rebuilt ", "other "});
  }
  return m;
}

struct Wording {
  std::string_view phrase;  // by which the message is recognised
  OomMessage (*read)(std::string_view);
};
constexpr std::array<Wording, 6> kWordings{{{"MPS backend out of memory", read_mps},
                                            {"out of memory. Tried to allocate ", read_gpu},
                                            {"[retrace::memory] an allocation of ", read_limit},
                                            {"[budget] a step needs at least ", read_budget},
                                            {"you tried to allocate ", read_cpu},
                                            {"Tried to allocate ", read_gpu}}};

}  // namespace

std::optional<int64_t> OomMessage::at_least_bytes() const {
  if (needed_bytes) return needed_bytes;
  if (allocated_bytes && tried_bytes) return *allocated_bytes + *tried_bytes;
  return std::nullopt;
}

bool OomMessage::fragmented() const { return tried_bytes && cached_bytes && *cached_bytes >= *tried_bytes; }

OomMessage read_oom(std::string_view text) {
  const Wording* last = nullptr;
  size_t where = 0;
  for (const Wording& wording : kWordings) {
    const size_t at = text.rfind(wording.phrase);
    if (at == std::string_view::npos) continue;
    // A message that one wording recognises contains the shorter ones, further right: they count only if nothing else
    // does.
    const bool within = last && at >= where && at - where < 400;
    if (!last || (at > where && !within)) last = &wording, where = at;
  }
  if (last) {
    const OomMessage message = last->read(text.substr(where));
    if (message.tried_bytes || message.needed_bytes) return message;
  }
  throw UsageError(
      "[doctor] the text has no out-of-memory message that is known here, so no size can be read from it. Paste the "
      "line with "
      "\"Tried to allocate\", of PyTorch, LibTorch or Retrace.");
}

namespace {

std::string shown(const std::optional<int64_t>& bytes) { return bytes ? human_bytes(*bytes) : "an unknown amount"; }

void explain_budget(const OomMessage& m, std::vector<std::string>& lines) {
  lines.push_back(fmt::format("Retrace refused a budget of {}: the step cannot do with less than {}.",
                              shown(m.capacity_bytes), shown(m.needed_bytes)));
}

void explain_device(const OomMessage& m, std::vector<std::string>& lines) {
  lines.push_back(
      fmt::format("An allocation of {} failed{}.", shown(m.tried_bytes),
                  m.allocated_bytes ? fmt::format(" with {} in live tensors", shown(m.allocated_bytes)) : ""));
  if (m.source == OomSource::retrace_limit) lines.back() += fmt::format(" The limit was {}.", shown(m.capacity_bytes));
  if (m.fragmented()) {
    lines.push_back(
        fmt::format("{} were reserved and unused, in pieces too small: fragmentation. Before anything else, try "
                    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
                    shown(m.cached_bytes)));
  }
  if (m.outside_bytes && m.capacity_bytes && *m.outside_bytes > *m.capacity_bytes / 20) {
    lines.push_back(
        fmt::format("{} of the device are held by something else: another process, or libraries of this one.",
                    shown(m.outside_bytes)));
  }
}

}  // namespace

std::vector<std::string> explain(const OomMessage& m) {
  std::vector<std::string> lines;
  m.source == OomSource::retrace_budget ? explain_budget(m, lines) : explain_device(m, lines);
  std::string owners;
  for (const auto& owner : m.owners) {
    std::string name =
        owner.name == "(optimizer state, data)" ? "live before the step (optimizer state, data)" : owner.name;
    owners += fmt::format("{}{} {}", owners.empty() ? "" : ", ", name, human_bytes(owner.bytes));
  }
  if (!owners.empty()) lines.push_back("Held by: " + owners + ".");
  return lines;
}

}  // namespace retrace::doctor
