// Writes that no version counter tells of: through data_ptr, and into memory that LibTorch does not own. Wild programs
// only.
#include "operators.h"

namespace retrace::random {

namespace {

using torch::Tensor;

enum Part : int64_t { kAll, kEveryOther, kOneElement, kParts };

// One element of a larger storage is noticed only in steps that are verified: a limit that README names.
constexpr size_t kWatchedWhole = 16384;

// A leaf that requires grad is not among them: nobody writes a parameter by pointer in the middle of a step.
bool writable_by_pointer(const Tensor& t) {
  return t.scalar_type() == torch::kFloat && t.numel() > 0 && !(t.is_leaf() && t.requires_grad()) && !t.is_neg() &&
         !t._is_zerotensor();
}

// LibTorch allocates nothing without an allocator.
bool is_blob(const Tensor& t) { return writable_by_pointer(t) && t.storage().allocator() == nullptr; }

void propose_part(Chooser& chooser, Statement& s) {
  s.ints = {chooser.dice.below(kParts), chooser.dice.below(1 << 16)};
  s.reals = {chooser.dice.real(-1, 1)};
}

// Mostly the newest tensor: one that no operator has read yet.
bool propose_pointer_write(Chooser& chooser, Statement& s) {
  propose_part(chooser, s);
  const int newest = chooser.values() - 1;
  if (chooser.dice.chance(0.6) && chooser.at(newest).defined() && writable_by_pointer(chooser.at(newest))) {
    s.in = {newest};
    return true;
  }
  return chooser.operand(s, writable_by_pointer);
}

bool propose_refill(Chooser& chooser, Statement& s) {
  propose_part(chooser, s);
  return chooser.operand(s, is_blob);
}

bool propose_use(Chooser& chooser, Statement& s) {
  if (!chooser.operand(s, is_blob)) return false;
  const auto sizes = chooser.operand_of(s, 0).sizes().vec();
  return chooser.operand(s, [&](const Tensor& t) { return is_real(t) && t.sizes() == at::IntArrayRef(sizes); });
}

// ints = the sizes of a value at hand, so that the two can be used together
bool propose_blob(Chooser& chooser, Statement& s) {
  Statement like;
  if (!chooser.operand(like, [](const Tensor& t) { return t.scalar_type() == torch::kFloat && t.numel() > 0; })) {
    return false;
  }
  s.ints = chooser.operand_of(like, 0).sizes().vec();
  s.reals = {chooser.dice.real(-1, 1)};
  return true;
}

float element(double start, int64_t k) { return static_cast<float>(start + 0.03125 * static_cast<double>(k % 7)); }

void write_by_pointer(const Call& c) {
  const Tensor& t = c.in[0];
  auto* data = t.data_ptr<float>();
  const int64_t n = t.numel();
  const bool one_element = c.i(0) == kOneElement && t.storage().nbytes() <= kWatchedWhole;
  const int64_t first = one_element ? c.i(1) % n : 0;
  const int64_t step = c.i(0) == kAll ? 1 : one_element ? n : 2;
  int64_t k = 0;
  for_each_offset(t, [&](int64_t offset) {
    if (k >= first && (k - first) % step == 0) data[offset] = element(c.r(0), k);
    ++k;
  });
}

// The vector is the data loader's own; the deleter only says that the tensor needs it no more.
Tensor blob(const Call& c) {
  int64_t n = 1;
  for (const int64_t size : c.statement.ints) n *= size;
  const auto data = std::make_shared<std::vector<float>>(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) (*data)[static_cast<size_t>(k)] = element(c.r(0), k);
  return torch::from_blob(data->data(), c.statement.ints, [data](void*) {});
}

}  // namespace

std::vector<Operator> silent_write_operators() {
  return {
      {"pointer_write", 10, Effect::writes_silently, propose_pointer_write,
       [](const Call& c) -> Results { return write_by_pointer(c), Results{}; }},
      {"blob", 4, Effect::pure, propose_blob, [](const Call& c) -> Results { return {blob(c)}; }},
      // Autograd saves the blob, if the other one has gradients.
      {"use_blob", 5, Effect::pure, propose_use, [](const Call& c) -> Results { return {c.in[0] * c.in[1]}; }},
      {"refill_blob", 5, Effect::writes_silently, propose_refill,
       [](const Call& c) -> Results { return write_by_pointer(c), Results{}; }},
  };
}

}  // namespace retrace::random
