// The hand trace against a little program that follows the same step with sets of names, and knows nothing of
// simulators.
#include "report/hand_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "policy/predict.h"

namespace retrace::report {
namespace {

using Names = std::set<std::string>;

// Sizes in KiB as the page says them: streams and what is as wide as they are 4, everything else 1.
int size_of(const std::string& name) {
  const char kind = name.front();
  const bool wide = kind == 'x' || kind == 'h' || (kind == 'd' && name.size() == 2) || kind == 'e';
  return wide ? 4 : 1;
}
int size_of(const Names& names) {
  int sum = 0;
  for (const std::string& name : names) sum += size_of(name);
  return sum;
}
Names united(Names a, const Names& b) {
  a.insert(b.begin(), b.end());
  return a;
}

struct Seen {
  Names held, rebuilt;
  std::vector<std::string> ran_again;
  int live = 0;
};

// Follows the net by the rules in words: forward keeps what the policy keeps of what autograd saves; backward makes
// what is missing from what is there, keeps what it will ask for again, and forgets each thing after its last use.
class ByHand {
 public:
  explicit ByHand(Names kept) : kept_(std::move(kept)) {
    for (int i = 1; i <= 4; ++i) {
      const auto n = [&](const char* kind) { return kind + std::to_string(i); };
      const std::string before = "x" + std::to_string(i - 1);
      inputs_[n("z")] = {before};
      inputs_[n("g")] = {n("z")};
      inputs_[n("h")] = {n("g")};
      inputs_[n("x")] = {before, n("h")};
      wanted_.insert({n("g"), before});
    }
    inputs_["x0"] = {"a"};
  }

  std::vector<Seen> run() {
    compute("x0");
    end_row();
    for (int i = 1; i <= 4; ++i) forward(i);
    look();
    in_hand_.clear();
    gradients_.insert("d4");
    look();
    end_row();
    for (int i = 4; i >= 1; --i) backward(i);
    return seen_;
  }
  int ran_again() const { return ran_again_; }

 private:
  Names there() const { return united(united(in_hand_, held_), rebuilt_); }
  void look(int making = 0) {
    const int weights_and_input = 9 + 1;
    row_.live = std::max(row_.live, weights_and_input + size_of(there()) + size_of(gradients_) + making);
  }
  void end_row() {
    row_.held = held_;
    row_.rebuilt = rebuilt_;
    seen_.push_back(row_);
    row_ = {};
  }
  void save(const std::string& name) {
    if (kept_.contains(name)) held_.insert(name);
  }
  void compute(const std::string& name) {
    look(size_of(name));
    in_hand_.insert(name);
  }

  void forward(int i) {
    const auto n = [&](const char* kind) { return kind + std::to_string(i); };
    const std::string before = "x" + std::to_string(i - 1);
    save(before);
    compute(n("z"));
    end_row();
    compute(n("g"));
    save(n("g"));
    in_hand_.erase(n("z"));
    end_row();
    compute(n("h"));
    in_hand_.erase(n("g"));
    end_row();
    compute(n("x"));
    in_hand_.erase(n("h"));
    in_hand_.erase(before);
    end_row();
  }

  // What is missing, in the order it has to be made.
  void list_missing(const std::string& name, std::vector<std::string>& order) const {
    if (name == "a" || there().contains(name)) return;
    for (const std::string& input : inputs_.at(name)) list_missing(input, order);
    if (std::find(order.begin(), order.end(), name) == order.end()) order.push_back(name);
  }
  void need(const std::string& name) {
    std::vector<std::string> order;
    list_missing(name, order);
    for (size_t i = 0; i < order.size(); ++i) {
      look(size_of(order[i]));
      rebuilt_.insert(order[i]);
      row_.ran_again.push_back(order[i]);
      ++ran_again_;
      Names still = wanted_;
      still.insert(name);
      for (size_t j = i + 1; j < order.size(); ++j) still = united(still, inputs_.at(order[j]));
      std::erase_if(rebuilt_, [&](const std::string& made) { return !still.contains(made); });
    }
    look();
  }
  void forget(const std::string& name) {
    wanted_.erase(name);
    held_.erase(name);
    rebuilt_.erase(name);
  }

  void backward(int i) {
    const auto n = [&](const char* kind) { return kind + std::to_string(i); };
    const std::string before = "x" + std::to_string(i - 1);
    need(n("g"));
    gradients_.insert({n("dV"), n("dg")});
    look();
    end_row();
    gradients_.insert(n("dz"));
    look();
    gradients_.erase(n("dg"));
    forget(n("g"));
    look();
    end_row();
    need(before);
    gradients_.insert({n("dW"), n("e")});
    look();
    forget(before);
    gradients_.erase(n("dz"));
    gradients_.insert("d" + std::to_string(i - 1));
    look();
    gradients_.erase(n("d"));
    gradients_.erase(n("e"));
    if (i == 1) gradients_.insert("dS");
    look();
    end_row();
  }

  const Names kept_;
  std::map<std::string, Names> inputs_;
  Names wanted_;  // by a part of backward that is still to come
  Names in_hand_, held_, rebuilt_, gradients_;
  Seen row_;
  std::vector<Seen> seen_;
  int ran_again_ = 0;
};

Names as_set(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

void expect_same(const HandNet& net, const HandTrace& trace, const Names& kept) {
  ByHand by_hand(kept);
  const std::vector<Seen> rows = by_hand.run();
  ASSERT_EQ(rows.size(), net.rows.size());
  int peak = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const HandTrace::Moment& moment = trace.moments[r];
    const std::string where = trace.policy + ", " + net.rows[r].what;
    EXPECT_EQ(moment.live_bytes, rows[r].live * 1024) << where;
    EXPECT_EQ(as_set(moment.held), rows[r].held) << where;
    EXPECT_EQ(as_set(moment.rebuilt), rows[r].rebuilt) << where;
    EXPECT_EQ(moment.ran_again, rows[r].ran_again) << where;
    peak = std::max(peak, rows[r].live);
  }
  EXPECT_EQ(trace.peak_bytes, peak * 1024);
  EXPECT_EQ(trace.ops_again, by_hand.ran_again());
}

TEST(HandTrace, IsWhatSetsOfNamesGiveForFullStorage) {
  const HandNet net = make_hand_net();
  expect_same(net, trace_full(net), {"x0", "x1", "x2", "x3", "g1", "g2", "g3", "g4"});
}

TEST(HandTrace, IsWhatSetsOfNamesGiveForEveryN) {
  const HandNet net = make_hand_net();
  expect_same(net, trace_every(net, 1), {"x0", "x1", "x2", "x3"});
  expect_same(net, trace_every(net, 2), {"x1", "x3"});
  expect_same(net, trace_every(net, 3), {"x2"});
  expect_same(net, trace_every(net, 4), {"x3"});
}

TEST(HandTrace, HasItsNumbersOnPaper) {
  const HandNet net = make_hand_net();
  const HandTrace full = trace_full(net), one = trace_every(net, 1), two = trace_every(net, 2);
  EXPECT_EQ(full.held_bytes, (4 * 4 + 4 * 1) * 1024);
  EXPECT_EQ(one.ops_again, 4 * 2) << "a product and a tanh in each layer";
  EXPECT_EQ(two.ops_again, 4 * 2 + 2 + 1) << "and what makes the streams x2 and x0";
  EXPECT_NEAR(one.extra_seconds, 4 * 5e-3, 1e-9);
  EXPECT_NEAR(two.extra_seconds, 4 * 5e-3 + 5e-3 + 4e-3, 1e-9);
  EXPECT_LT(two.peak_bytes, one.peak_bytes);
  EXPECT_LT(one.peak_bytes, full.peak_bytes);
}

TEST(HandTrace, PartsSumUpToWhatIsLive) {
  const HandNet net = make_hand_net();
  for (const HandTrace& trace : {trace_full(net), trace_every(net, 1), trace_every(net, 2)}) {
    const auto& moment = trace.moments[trace.peak_row];
    int64_t sum = 0;
    for (const HandPart& part : moment.parts) sum += part.bytes;
    EXPECT_EQ(sum, trace.peak_bytes) << trace.policy;
    EXPECT_EQ(moment.live_bytes, trace.peak_bytes) << trace.policy;
  }
}

TEST(HandTrace, IsWhatThePoliciesThemselvesArePredictedToDo) {
  const HandNet net = make_hand_net();
  EXPECT_NO_THROW(plan::check(net.graph));
  EXPECT_EQ(predict(net.graph, keep_all()).peak_bytes, trace_full(net).peak_bytes);
  for (const int n : {1, 2, 3}) {
    EXPECT_EQ(predict(net.graph, every(n)).peak_bytes, trace_every(net, n).peak_bytes) << n;
    EXPECT_EQ(predict(net.graph, every(n)).ops_replayed, trace_every(net, n).ops_again) << n;
  }
}

}  // namespace
}  // namespace retrace::report
