// A step that does what the ones before did is not written down again. One that stops doing so is, from its beginning.
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include <gtest/gtest.h>
#include <retrace/retrace.h>

#include "plan/file/file.h"
#include "policy/rules.h"
#include "support/hostile.h"

namespace retrace::test::following {

constexpr int kAlike = 8;  // enough for a plan to be made, followed and timed

struct Net {
  Net() {
    torch::manual_seed(3);
    x = torch::randn({16, 32});
    for (at::Tensor& w : weights) w = torch::randn({32, 32}).requires_grad_();
  }
  at::Tensor layer(const at::Tensor& in, size_t i) const { return in.mm(weights[i]).tanh(); }
  void clear() {
    for (at::Tensor& w : weights) w.mutable_grad().reset();
  }

  at::Tensor x;
  at::Tensor weights[4];
};

void usual(const Net& net) {
  at::Tensor h = net.x;
  for (size_t i = 0; i < 4; ++i) h = net.layer(h, i);
  h.sum().backward();
}

plan::Graph tape_of(const Session& session) {
  const auto path = std::filesystem::temp_directory_path() / ("retrace_follows_" + std::to_string(::getpid()));
  session.save_tape(path.string());
  plan::Graph graph = plan::load_graph(path.string());
  std::filesystem::remove(path);
  return graph;
}

using Work = std::function<void(const Net&)>;

void run(Session& session, Net& net, const Work& work) {
  net.clear();
  const auto step = session.step();
  work(net);
}

// The tape of a step that comes after `alike` usual ones.
plan::Graph tape_after(const Policy& policy, int alike, const Work& work) {
  Net net;
  Session session(policy, {.planning = Planning::foreground});
  for (int i = 0; i < alike; ++i) run(session, net, usual);
  run(session, net, work);
  return tape_of(session);
}

// All but times, and when releases were noticed.
std::string outline(const plan::Graph& graph) {
  std::string text;
  const auto add = [&](auto... numbers) { ((text += std::to_string(numbers) + " "), ...); };
  for (const plan::Op& op : graph.ops) {
    text += "\n" + op.name + " ";
    for (const plan::Arg& arg : op.args) add(arg.value, arg.becomes, arg.shape_only, arg.has_gradient);
    for (const plan::ValueId v : op.fresh) add(v);
    for (const plan::Output& output : op.outputs) text += output.dtype + std::to_string(output.shape.size()) + " ";
    add(op.working_bytes);
  }
  for (const plan::Value& v : graph.values) {
    text += "\nvalue ";
    add(v.bytes, v.storage, v.producer, v.external, v.has_gradient);
  }
  for (const plan::ValueId handle : graph.handles) add(handle);
  for (const plan::Event& e : graph.events) {
    if (e.kind == plan::EventKind::release) continue;
    text += "\nevent ";
    add(static_cast<int>(e.kind), e.id, e.other_bytes, e.gradient_bytes);
  }
  for (const plan::Backward& backward : graph.backwards) add(backward.records);
  add(graph.backwards.size(), graph.start_bytes);
  return text;
}

// Written out after many steps alike, as it would have been without them. One usual step comes first in both: it makes
// what LibTorch makes once.
void expect_written_as_ever(const Policy& policy, const Work& work) {
  EXPECT_EQ(outline(tape_after(policy, kAlike, work)), outline(tape_after(policy, 2, work)));
}

void in_the_middle(const Net& net) {
  at::Tensor h = net.layer(net.layer(net.x, 0), 1);
  h = h.sigmoid();
  net.layer(net.layer(h, 2), 3).sum().backward();
}

void cut_short(const Net& net) { net.layer(net.layer(net.x, 0), 1).sum().backward(); }

void without_backward(const Net& net) {
  const at::Tensor h = net.layer(net.layer(net.x, 0), 1);
  EXPECT_TRUE(h.requires_grad());
}

void longer(const Net& net) {
  usual(net);
  net.layer(net.x, 0).mul(2).sum().backward();
}

void saves_more(const Net& net) {
  const at::Tensor x = net.x.detach().requires_grad_();  // so that a product saves its weight, too
  at::Tensor h = x;
  for (size_t i = 0; i < 4; ++i) h = net.layer(h, i);
  h.sum().backward();
}

TEST(FollowedStep, IsNotWrittenDownAgain) {
  RETRACE_SKIP_IF_HOSTILE();
  for (const Policy& policy : {keep_all(), recompute_all(), every(2), within_budget(budget("1GiB"))}) {
    Net net;
    Session session(policy, {.planning = Planning::foreground});
    for (int i = 0; i < kAlike; ++i) run(session, net, usual);
    const std::string before = plan::to_bytes(tape_of(session));
    run(session, net, usual);
    EXPECT_EQ(plan::to_bytes(tape_of(session)), before);  // times and all
  }
}

TEST(FollowedStep, ThatChangesIsWrittenFromItsBeginning) {
  RETRACE_SKIP_IF_HOSTILE();
  for (const Policy& policy : {keep_all(), recompute_all(), within_budget(budget("1GiB"))}) {
    for (const auto& work : {in_the_middle, cut_short, without_backward, longer, saves_more})
      expect_written_as_ever(policy, work);
  }
}

TEST(FollowedStep, WithOtherBytesLiveAtItsStartIsWrittenDown) {
  RETRACE_SKIP_IF_HOSTILE();
  Net net;
  Session session(keep_all());
  for (int i = 0; i < kAlike; ++i) run(session, net, usual);
  const at::Tensor more = torch::zeros({1000});
  const int64_t start = memory::live_bytes();
  run(session, net, usual);
  EXPECT_EQ(tape_of(session).start_bytes, start - 4 * 32 * 32 * 4);  // run() lets go of the gradients first
}

TEST(FollowedStep, WhoseValueIsWrittenByAPointerKeepsIt) {
  Net net;
  Session session(recompute_all());
  for (int i = 0; i < kAlike; ++i) run(session, net, usual);
  const Work writes = [](const Net& n) {
    const at::Tensor h = n.layer(n.layer(n.x, 0), 1);
    h.data_ptr<float>()[7] = 0.25f;
    n.layer(n.layer(h, 2), 3).sum().backward();
  };
  run(session, net, writes);
  const at::Tensor found = net.weights[2].grad().clone();
  net.clear();
  writes(net);
  EXPECT_TRUE(found.equal(net.weights[2].grad()));
}

TEST(FollowedStep, ThatChangesKeepsItsBudget) {
  RETRACE_SKIP_IF_HOSTILE();
  Net net;
  net.x = torch::randn({2048, 32});
  run(*std::make_unique<Session>(keep_all()), net, usual);
  memory::reset_peak();
  run(*std::make_unique<Session>(keep_all()), net, in_the_middle);
  const int64_t budget_bytes = memory::peak_bytes() * 9 / 10;
  Session session(budget(budget_bytes));
  for (int i = 0; i < 2 * kAlike; ++i) {
    memory::reset_peak();
    run(session, net, i % 5 == 4 ? in_the_middle : usual);
    EXPECT_LE(memory::peak_bytes(), budget_bytes) << i;
  }
}

}  // namespace retrace::test::following
