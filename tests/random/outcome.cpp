#include "outcome.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "operators.h"

namespace retrace::random {

namespace {

void append_elements(std::string& bytes, const torch::Tensor& t) {
  const auto* data = static_cast<const char*>(t.data_ptr());
  const auto size = static_cast<int64_t>(t.element_size());
  if (t.is_contiguous() && t.numel() > 0) {
    bytes.append(data, static_cast<size_t>(t.numel() * size));
    return;
  }
  for_each_offset(t, [&](int64_t offset) { bytes.append(data + offset * size, static_cast<size_t>(size)); });
}

// Whether a view is a leaf depends on who has asked: it learns that its base was written when somebody looks at its
// history.
std::string describe(const torch::Tensor& t) {
  std::ostringstream out;
  out << t.scalar_type() << t.sizes() << " strides " << t.strides() << (t.requires_grad() ? " requires_grad" : "")
      << (t.is_leaf() && !t.is_view() ? " leaf" : "") << (t.is_conj() ? " conj" : "") << (t.is_neg() ? " neg" : "")
      << (t._is_zerotensor() ? " zero tensor" : "") << " version " << t._version();
  return out.str();
}

std::string place(const Observation& o) { return o.what + " at statement " + std::to_string(o.statement); }

// The first element that differs, as hexadecimal, so that -0, 0 and the many NaNs can be told apart.
std::string first_difference(const std::string& a, const std::string& b) {
  std::ostringstream out;
  const size_t n = std::min(a.size(), b.size());
  const auto at = static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first - a.begin());
  const size_t from = at / 8 * 8;
  const auto hex = [&](const std::string& s) {
    for (size_t i = from; i < std::min(from + 8, s.size()); ++i)
      out << std::hex << (static_cast<unsigned>(s[i]) & 0xffu) << " ";
  };
  out << "byte " << at << " of " << a.size() << ": plain ";
  hex(a);
  out << "retrace ";
  hex(b);
  return out.str();
}

std::optional<std::string> difference(const Observation& a, const Observation& b) {
  if (a.statement != b.statement || a.what != b.what) return "plain saw " + place(a) + ", Retrace " + place(b);
  if (a.metadata != b.metadata) return place(a) + ": plain is " + a.metadata + ", Retrace " + b.metadata;
  if (a.content != b.content) return place(a) + " (" + a.metadata + "): " + first_difference(a.content, b.content);
  return std::nullopt;
}

std::string thrown_text(const std::optional<Thrown>& thrown) {
  if (!thrown) return "ran to its end";
  return "raised " + thrown->type + " at statement " + std::to_string(thrown->statement) + ": " + thrown->message;
}

Comparison compare_raised(const Outcome& plain, const Outcome& retrace) {
  const auto& p = plain.thrown;
  const auto& r = retrace.thrown;
  const bool excused = r && ((r->usage_error && plain.outside_write) || (r->not_supported && plain.orphan_view));
  if (excused && (!p || r->statement <= p->statement)) {
    return compare_before(plain, retrace, r->statement);
  }
  if (!p || !r || p->statement != r->statement || p->type != r->type) {
    return {Verdict::different, "plain " + thrown_text(p) + "\n  Retrace " + thrown_text(r)};
  }
  return {Verdict::both_raised, {}};
}

}  // namespace

Observation observe(int statement, std::string what, const torch::Tensor& tensor) {
  Observation seen{statement, std::move(what), "undefined", {}};
  if (!tensor.defined()) return seen;
  seen.metadata = describe(tensor);
  if (!tensor._is_zerotensor()) append_elements(seen.content, tensor);  // autograd's zeros without memory
  return seen;
}

Comparison compare_before(const Outcome& plain, const Outcome& retrace, int statement) {
  for (size_t i = 0; i < retrace.observations.size(); ++i) {
    const Observation& seen = retrace.observations[i];
    if (seen.statement >= statement) break;
    if (i >= plain.observations.size()) return {Verdict::different, "Retrace saw more than plain"};
    if (auto text = difference(plain.observations[i], seen)) return {Verdict::different, *text};
  }
  return {Verdict::refused, {}};
}

Comparison compare(const Outcome& plain, const Outcome& retrace) {
  Comparison result;
  if (plain.thrown || retrace.thrown) {
    result = compare_raised(plain, retrace);
    if (result.verdict == Verdict::different) return result;
  }
  if (result.verdict != Verdict::refused) {
    const size_t n = std::min(plain.observations.size(), retrace.observations.size());
    for (size_t i = 0; i < n; ++i) {
      if (auto text = difference(plain.observations[i], retrace.observations[i])) return {Verdict::different, *text};
    }
    if (plain.observations.size() != retrace.observations.size()) {
      return {Verdict::different, "one run saw " + std::to_string(plain.observations.size()) + " things, the other " +
                                      std::to_string(retrace.observations.size())};
    }
  }
  if (!retrace.broken_budget.empty()) return {Verdict::different, retrace.broken_budget};
  // Autograd itself leaks a few graphs: a second-order graph through in-place writes to views refers to itself. It then
  // holds whatever its saved tensors hold, so only a program that leaks nothing says something.
  // After an exception LibTorch's engine holds gradients that wait in its queue, until a later backward takes its turn.
  if (retrace.leaked_bytes > 0 && plain.leaked_bytes <= 0 && !retrace.thrown) {
    return {Verdict::different,
            std::to_string(retrace.leaked_bytes) + " bytes still live after everything was dropped"};
  }
  return result;
}

}  // namespace retrace::random
