// The interpreter: runs a program plain, or with its regions and steps handed to Retrace. Both ways run the same code
// over the same statements; only the Scopes differ.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <torch/torch.h>

#include <retrace/session.h>

#include "operators.h"
#include "outcome.h"
#include "program.h"
#include "scope_watch.h"

namespace retrace::random {

class Scopes {
 public:
  using Body = std::function<Results(Results)>;
  virtual ~Scopes() = default;
  virtual Results region(const Statement& scope, const Body& body, Results inputs) = 0;
  virtual void step(const Statement& scope, const std::function<void()>& body) = 0;
  // On a thread other than the program's: in a step of a session of its own.
  virtual void step_on_thread(const Statement& scope, const std::function<void()>& body) = 0;
  virtual void worked_on_thread() {}
  virtual void begin_run();            // peaks are of one run
  virtual int64_t peak_bytes() const;  // the most live at once since begin_run()
};

// What steps under budgets are measured by, and what came of it.
struct Budgets {
  int64_t start_bytes = 0;           // live before the program
  int64_t plain_peak = 0;            // what it takes beyond that without Retrace
  std::map<int64_t, int64_t> bytes;  // by session number, beyond start_bytes: instead of the percent the program says
  int64_t smallest_named = 0;        // the largest of what refusals said would be enough, beyond start_bytes
  std::string broken;                // the first thing that was not kept to
  std::optional<int64_t> refused;    // the session whose budget was last refused
  Planning planning = Planning::background;
  int64_t step_peak_bytes = 0;                       // of the latest step, of everything live
  std::optional<int64_t> predicted_bytes;            // the same, as its plan said, if it followed one
  int64_t steps_followed = 0, steps_rebuilding = 0;  // that kept to a plan; that rebuilt something
};

std::unique_ptr<Scopes> plain_scopes();                    // regions and steps are nothing
std::unique_ptr<Scopes> retrace_scopes(Budgets& budgets);  // the real ones; `budgets` must outlive them

class Machine {
 public:
  Machine(const Program& program, Scopes& scopes);
  Outcome run();

 private:
  void run_block(size_t begin, size_t end);
  void run_scope(size_t begin, size_t end);
  void run_region(size_t begin, size_t end);
  void run_statement(size_t index);
  Results execute(const Statement& statement);
  void note_silent_write(int v);
  bool is_looked_at_again(int v) const;
  void note_writes(const std::vector<torch::Tensor>& operands, const std::vector<int64_t>& versions);
  void drop_dead(const std::vector<int>& mentioned, size_t index);
  void observe_end(Outcome& outcome);
  Results take(const std::vector<int>& values);
  void put(const std::vector<int>& values, Results tensors);
  std::vector<int> inputs_of(size_t begin, size_t end) const;
  std::vector<int> results_of(size_t begin, size_t end) const;
  bool is_held(int value) const { return program_.held.count(value) != 0; }

  const Program& program_;
  Scopes& scopes_;
  std::vector<int> last_uses_;
  std::vector<torch::Tensor> values_;
  std::vector<std::pair<int, torch::Tensor>> leaves_;  // with their value numbers; alive until the end
  std::vector<torch::Tensor> trainable_;
  at::Generator generator_;
  ScopeWatch watch_;
  std::vector<Observation> observations_;
  std::vector<std::pair<int, Lateness>> silent_writes_;
  bool writes_parameter_ = false;  // silently: no program is made to, but a shrunk one may
  size_t position_ = 0;
};

}  // namespace retrace::random
