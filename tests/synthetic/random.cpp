// Small, odd graphs: see synthetic_random() in graphs.h.
#include <algorithm>
#include <random>

#include "synthetic/graphs.h"
#include "synthetic/step.h"

namespace retrace::plan {
namespace {

constexpr int64_t kKilobyte = 1024;

class RandomStep {
 public:
  explicit RandomStep(uint32_t seed) : random_(seed) {}

  Graph make(int ops) {
    pool_.push_back(step_.run("load", 0.01, {step_.input(4 * kKilobyte)}, {4 * kKilobyte}));
    while (ops_ < ops) {
      switch (below(6)) {
        case 0:
          split();
          break;
        case 1:
          mask();
          break;
        case 2:
          in_place();
          break;
        default:
          map();
          break;
      }
      while (pool_.size() > 4 || (pool_.size() > 1 && below(4) == 0)) let_go(below(pool_.size()));
    }
    save({pool_.back()});
    // A program may hold on to its results for as long as it likes.
    while (!pool_.empty()) {
      if (below(4) == 0) {
        pool_.pop_back();
      } else {
        let_go(pool_.size() - 1);
      }
    }
    return step_.finish();
  }

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_()) % n; }
  int64_t bytes() { return kKilobyte * static_cast<int64_t>(1 + below(8)); }
  double seconds() { return 0.001 * static_cast<double>(1 + below(30)); }
  ValueId any() { return pool_[below(pool_.size())]; }

  void let_go(size_t index) {
    step_.release(pool_[index]);
    pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void save(const std::vector<ValueId>& saved) {
    step_.node(saved, 0.01, kKilobyte * static_cast<int64_t>(below(4)), kKilobyte * static_cast<int64_t>(below(4)),
               kKilobyte * static_cast<int64_t>(below(2)));
  }

  // Some operators save what they read, some what they make, some both, some nothing.
  void save_some(const std::vector<ValueId>& read, const std::vector<ValueId>& made, std::vector<ValueId> saved = {}) {
    for (const ValueId v : read) {
      if (below(2) == 0) saved.push_back(v);
    }
    for (const ValueId v : made) {
      if (below(3) == 0) saved.push_back(v);
    }
    save(saved);
  }

  void map() {
    ++ops_;
    std::vector<ValueId> reads{any()};
    if (below(3) == 0) reads.push_back(any());
    const ValueId y = step_.run("map", seconds(), reads, {bytes()}, kKilobyte * static_cast<int64_t>(below(3)));
    save_some(reads, {y});
    pool_.push_back(y);
  }

  void split() {
    ++ops_;
    const ValueId x = any(), y = step_.run("split", seconds(), {x}, {bytes(), bytes()});
    save_some({x}, {y, y + 1});
    pool_.push_back(y);
    pool_.push_back(y + 1);
  }

  void mask() {
    ops_ += 2;
    const ValueId x = any();
    ValueId m = step_.run_shape_only("empty_like", 1e-6, x, step_.bytes(x));
    m = step_.run_in_place("bernoulli_", seconds(), m);
    if (below(2) == 0) step_.way(m, {"bits", std::max<int64_t>(1, step_.bytes(x) / 32), 0.001, 0.001});
    const ValueId y = step_.run("mul", seconds(), {x, m}, {step_.bytes(x)});
    save_some({m}, {});
    step_.release(m);
    pool_.push_back(y);
  }

  void in_place() {
    ++ops_;
    // Beside its result statistics, too small to count; with them at hand it runs again in no time.
    const ValueId x = any(), y = step_.run("norm", seconds(), {x}, {bytes(), 0});
    step_.shortcut(0.0005);
    const ValueId z = step_.run_in_place("relu_", seconds(), y);
    save_some({x}, {z}, {y + 1});
    step_.release(y + 1);
    pool_.push_back(z);
  }

  std::mt19937 random_;
  SyntheticStep step_;
  std::vector<ValueId> pool_;  // what the program has
  int ops_ = 0;
};

}  // namespace

Graph synthetic_random(uint32_t seed, int ops) { return RandomStep(seed).make(ops); }

}  // namespace retrace::plan
