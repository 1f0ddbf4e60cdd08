// A way to hold values that nobody else knows of: it keeps bytes outside LibTorch's memory, and takes a given time.
#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <retrace/retrace.h>

#include "plan/file/file.h"
#include "session/chain.h"
#include "store/kind.h"
#include "support/hostile.h"

namespace retrace::test::kinds {

class Outside final : public store::Kind {
 public:
  // `seconds` is what it says to take.
  explicit Outside(double seconds = kSeconds) : seconds_(seconds) {}

  std::string name() const override { return "outside"; }

  std::unique_ptr<const store::Stored> put(const c10::Storage& content, c10::ScalarType) const override {
    if (content.nbytes() < kSmallestBytes || is_broken) return nullptr;
    wait();
    ++put_;
    return std::make_unique<Away>(*this, content);
  }

  std::optional<plan::Way> measure(const c10::Storage& content, c10::ScalarType) const override {
    if (content.nbytes() < kSmallestBytes) return std::nullopt;
    plan::Way way;
    way.kind = name();
    way.store_seconds = way.load_seconds = seconds_;
    return way;
  }

  int put_count() const { return put_; }
  int taken_count() const { return taken_; }
  int held_count() const { return held_; }

  bool is_broken = false;  // nothing can be put away

 private:
  static constexpr size_t kSmallestBytes = 1024;
  static constexpr double kSeconds = 2e-6;

  static void wait() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kSeconds);
    while (std::chrono::steady_clock::now() < end) {
    }
  }

  class Away final : public store::Stored {
   public:
    Away(const Outside& kind, const c10::Storage& content) : kind_(kind), bytes_(content.nbytes()) {
      std::memcpy(bytes_.data(), content.data_ptr().get(), bytes_.size());
      ++kind_.held_;
    }
    ~Away() override { --kind_.held_; }
    c10::Storage take() const override {
      wait();
      ++kind_.taken_;
      c10::Storage content(c10::Storage::use_byte_size_t(), bytes_.size(), c10::GetCPUAllocator(), true);
      std::memcpy(content.data_ptr().get(), bytes_.data(), bytes_.size());
      return content;
    }
    int64_t bytes() const override { return 0; }

   private:
    const Outside& kind_;
    std::vector<char> bytes_;
  };

  const double seconds_;
  mutable int put_ = 0, taken_ = 0, held_ = 0;
};

const HeldValues* held_outside(const PlanSummary& plan) {
  const auto found =
      std::find_if(plan.held.begin(), plan.held.end(), [](const HeldValues& h) { return h.kind == "outside"; });
  return found == plan.held.end() ? nullptr : &*found;
}

class AddedKind : public ::testing::Test {
 protected:
  AddedKind() = default;
  explicit AddedKind(double seconds) : outside_(seconds) {}

  // Eight activations less than the plain step holds.
  int64_t budget_bytes() const { return work_.plain_peak() - 8 * Chain::kUnit; }
  void run_step(Session& session) {
    chain_.clear();
    memory::reset_peak();
    {
      const auto step = session.step();
      chain_.loss(input_).backward();
    }
    EXPECT_LE(memory::peak_bytes(), budget_bytes());
    EXPECT_EQ(chain_.gradients(), work_.gradients());
  }

  Chain chain_;
  at::Tensor input_ = chain_.input();
  Work work_{chain_, [this] { chain_.loss(input_).backward(); }};
  Outside outside_;
  store::AddedKind added_{outside_};
};

TEST_F(AddedKind, IsPlannedWithAndFollowedAndShown) {
  Session session(budget(budget_bytes()), {.verify = Verify::always});
  for (int i = 0; i < 5; ++i) run_step(session);
  const std::optional<PlanSummary> plan = session.plan();
  ASSERT_TRUE(plan);
  const HeldValues* const held = held_outside(*plan);
  ASSERT_NE(held, nullptr);
  EXPECT_GT(held->values, 0);
  EXPECT_EQ(held->bytes, 0);
  EXPECT_GT(held->plain_bytes, 0);
  EXPECT_GE(outside_.put_count(), held->values);
  EXPECT_GE(outside_.taken_count(), held->values);
  EXPECT_EQ(outside_.held_count(), 0);
}

TEST_F(AddedKind, IsInTheFilesOfTapesAndPlans) {
  Session session{budget(budget_bytes())};
  for (int i = 0; i < 2; ++i) run_step(session);
  const auto folder = std::filesystem::temp_directory_path();
  const std::string tape = (folder / ("retrace_kinds_" + std::to_string(::getpid()) + ".tape")).string();
  const std::string file = tape + ".json";
  session.save_tape(tape);
  const plan::Graph graph = plan::load_graph(tape);
  const plan::Answer answer = plan::solve(graph, budget_bytes());
  ASSERT_TRUE(answer.plan);
  plan::save(*answer.plan, file);
  const plan::Plan plan = plan::load_plan(file);
  std::remove(tape.c_str());
  std::remove(file.c_str());
  EXPECT_NO_THROW(plan::verify(plan, graph));
  const auto outside =
      std::find_if(plan.held.begin(), plan.held.end(), [](const auto& held) { return held.kind == "outside"; });
  ASSERT_NE(outside, plan.held.end());
  EXPECT_GT(outside->values, 0);
}

// One that takes no time: nothing is cheaper to be without than what it puts away.
class FreeKind : public AddedKind {
 protected:
  FreeKind() : AddedKind(0) {}
};

TEST_F(FreeKind, TakesWhatAFirstStepWouldForget) {
  Session session(budget(budget_bytes()), {.verify = Verify::always});
  run_step(session);
  EXPECT_GE(outside_.put_count(), 8);
  EXPECT_EQ(outside_.taken_count(), outside_.put_count());
  EXPECT_EQ(outside_.held_count(), 0);
  EXPECT_TRUE(hostile() || session.stats().ops_replayed == 0);
}

TEST_F(FreeKind, ThatCannotHoldWhatItSaidLeavesItToBeForgotten) {
  outside_.is_broken = true;
  Session session(budget(budget_bytes()), {.verify = Verify::always});
  run_step(session);
  EXPECT_EQ(outside_.put_count(), 0);
  EXPECT_GT(session.stats().ops_replayed, 0);
}

TEST(Kinds, AreFoundByNameWhileTheyAreThere) {
  const Outside kind;
  {
    const store::AddedKind added(kind);
    EXPECT_EQ(store::find_kind("outside"), &kind);
  }
  EXPECT_EQ(store::find_kind("outside"), nullptr);
}

TEST(Kinds, WithLossAreListedOnlyIfAskedFor) {
  for (const store::Kind* const kind : store::kinds(false)) EXPECT_FALSE(kind->lossy()) << kind->name();
  EXPECT_NE(store::find_kind("bfloat16"), nullptr);
  EXPECT_GT(store::kinds(true).size(), store::kinds(false).size());
}

}  // namespace retrace::test::kinds
