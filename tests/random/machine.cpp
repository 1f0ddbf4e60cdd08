#include "machine.h"

#include <cxxabi.h>

#include <stdexcept>

#include <ATen/CPUGeneratorImpl.h>

#include <retrace/errors.h>
#include <retrace/memory.h>

namespace retrace::random {

using torch::Tensor;

namespace {

std::string type_name(const std::exception& error) {
  int status = 0;
  char* name = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status);
  std::string text = name ? name : typeid(error).name();
  std::free(name);
  return text;
}

Thrown thrown_at(size_t statement, const std::exception& error) {
  const std::string message = error.what();
  return {static_cast<int>(statement),
          type_name(error),
          message.substr(0, message.find('\n')),
          dynamic_cast<const retrace::UsageError*>(&error) != nullptr,
          dynamic_cast<const retrace::NotSupported*>(&error) != nullptr,
          dynamic_cast<const retrace::InfeasibleBudget*>(&error) != nullptr};
}

class PlainScopes : public Scopes {
 public:
  Results region(const Statement&, const Body& body, Results inputs) override { return body(std::move(inputs)); }
  void step(const Statement&, const std::function<void()>& body) override { body(); }
  void step_on_thread(const Statement&, const std::function<void()>& body) override { body(); }
};

// The program may change the number of threads; the next one begins with one again.
struct ThreadCount {
  ~ThreadCount() {
    if (torch::get_num_threads() != 1) torch::set_num_threads(1);
  }
};

// These only know an address. Other silent writes are operators, and read what they write.
bool writes_by_pointer(const std::string& op) {
  const std::string name = without_lateness(op);
  return name == "pointer_write" || name == "refill_blob";
}

// After an exception LibTorch's engine holds gradients that wait in its queue, until a later backward takes its turn.
// They would be freed in the middle of this program, whose peak is to be its own.
void empty_queue_of_engine() { torch::ones({1}, torch::requires_grad()).sum().backward(); }

// So that leaving a scope by an exception is noted too.
struct ScopeNote {
  ScopeWatch& watch;
  ScopeNote(ScopeWatch& w, const Statement& scope) : watch(w) {
    watch.enter_scope(scope.ints.at(kPolicyKind) != kRecomputeAll);
  }
  ~ScopeNote() { watch.leave_scope(); }
};

}  // namespace

void Scopes::begin_run() { memory::reset_peak(); }

int64_t Scopes::peak_bytes() const { return memory::peak_bytes(); }

std::unique_ptr<Scopes> plain_scopes() { return std::make_unique<PlainScopes>(); }

Machine::Machine(const Program& program, Scopes& scopes)
    : program_(program),
      scopes_(scopes),
      last_uses_(last_uses(program)),
      values_(static_cast<size_t>(program.values)),
      generator_(at::detail::createCPUGenerator(program.seed + 1)) {}

Outcome Machine::run() {
  Outcome outcome;
  empty_queue_of_engine();
  torch::manual_seed(program_.seed);
  const ThreadCount restore;
  scopes_.begin_run();
  const int64_t start_bytes = memory::live_bytes();
  try {
    run_block(0, program_.statements.size());
  } catch (const std::exception& error) {
    outcome.thrown = thrown_at(position_, error);
  }
  outcome.body_peak_bytes = scopes_.peak_bytes() - start_bytes;
  observe_end(outcome);
  outcome.outside_write = watch_.outside_write();
  outcome.orphan_view = watch_.orphan_view();
  outcome.unfair = watch_.silent_outside_write() || writes_parameter_;
  for (const auto& [statement, lateness] : silent_writes_)
    outcome.unfair |= lateness > lateness_of(program_.statements[static_cast<size_t>(statement)].op);
  outcome.silent_writes = std::move(silent_writes_);
  return outcome;
}

void Machine::run_block(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    position_ = i;
    if (opens_scope(program_.statements[i])) {
      const size_t close = std::min(matching_end(program_, i), end);
      run_scope(i, close);
      i = close;
    } else if (!closes_scope(program_.statements[i])) {
      run_statement(i);
    }
  }
}

void Machine::run_scope(size_t begin, size_t end) {
  const Statement& scope = program_.statements[begin];
  if (scope.op == "region") {
    run_region(begin, end);
  } else if (scope.op == "step") {
    const ScopeNote note(watch_, scope);
    scopes_.step(scope, [&] { run_block(begin + 1, end); });
  } else {
    torch::AutoGradMode mode(scope.op == "enable_grad");
    run_block(begin + 1, end);
  }
}

void Machine::run_region(size_t begin, size_t end) {
  const ScopeNote note(watch_, program_.statements[begin]);
  const auto inputs = inputs_of(begin, end);
  const auto results = results_of(begin, end);
  const auto body = [&](Results arguments) {
    put(inputs, std::move(arguments));
    run_block(begin + 1, end);
    return take(results);
  };
  put(results, scopes_.region(program_.statements[begin], body, take(inputs)));
}

void Machine::run_statement(size_t index) {
  const Statement& statement = program_.statements[index];
  Results results = execute(statement);
  if (results.size() != statement.out.size()) throw std::logic_error("the number of results is not what it was");
  for (const Tensor& result : results) watch_.defined(result);
  put(statement.out, std::move(results));
  drop_dead(statement.in, index);
  drop_dead(statement.out, index);
}

Results Machine::execute(const Statement& statement) {
  if (statement.op == "leaf") {
    Tensor leaf = make_leaf(statement);
    leaves_.emplace_back(statement.out.at(0), leaf);
    if (leaf.requires_grad()) trainable_.push_back(leaf);
    return {leaf};
  }
  const Operator* op = find_operator(statement.op);
  if (op == nullptr) throw std::logic_error("no operator " + statement.op);
  Call call{statement, {}, generator_, &trainable_, &scopes_};
  std::vector<int64_t> versions;
  if (op->effect == Effect::writes_silently) note_silent_write(statement.in.at(0));
  for (const int v : statement.in) {
    const Tensor& operand = values_[static_cast<size_t>(v)];
    if (!operand.defined()) throw std::logic_error("v" + std::to_string(v) + " is not there");
    call.in.push_back(operand);
    versions.push_back(operand._version());
    if (!writes_by_pointer(statement.op)) watch_.read(operand);
  }
  std::vector<int64_t> leaf_versions;
  for (const Tensor& leaf : trainable_) leaf_versions.push_back(leaf._version());
  Results results = op->run(call);
  if (statement.op == "on_thread") scopes_.worked_on_thread();
  note_writes(call.in, versions);
  if (statement.op == "batch_norm" && statement.ints.at(0) != 0) {
    watch_.written_silently(call.in[3]);
    watch_.written_silently(call.in[4]);
  }
  note_writes(trainable_, leaf_versions);
  if (op->effect == Effect::unrepeatable) {
    for (const auto* tensors : {&call.in, &results}) {
      for (const Tensor& tensor : *tensors) watch_.cannot_be_rebuilt(tensor);
    }
  }
  if (op->effect == Effect::autograd || statement.op == "own_graph") watch_.backward_ran();
  return results;
}

// Whether after the statement that runs now somebody reads a value, or a view of it, or it is still there when a
// backward or a scope's end looks at what was saved. To make a view of it is not to read it.
bool Machine::is_looked_at_again(int v) const {
  std::set<int> aliases{v};
  for (size_t i = position_ + 1; i < program_.statements.size(); ++i) {
    const Statement& s = program_.statements[i];
    const bool reads = std::any_of(s.in.begin(), s.in.end(), [&](int in) { return aliases.count(in) != 0; });
    if (reads && !makes_view(s.op)) return true;
    if (reads) aliases.insert(s.out.begin(), s.out.end());
    const bool is_there = std::any_of(aliases.begin(), aliases.end(), [&](int alias) {
      return is_held(alias) || last_uses_[static_cast<size_t>(alias)] > static_cast<int>(i);
    });
    const Operator* const op = find_operator(s.op);
    if (is_there && (closes_scope(s) || (op != nullptr && op->effect == Effect::autograd))) return true;
    if (!is_there) return false;
  }
  return false;
}

// What nobody looks at after a late write cannot be noticed.
void Machine::note_silent_write(int v) {
  const Tensor& target = values_[static_cast<size_t>(v)];
  if (!target.defined()) return;
  Lateness lateness = watch_.lateness_of_write(target);
  if (lateness == Lateness::late && !is_looked_at_again(v)) lateness = Lateness::outside;
  silent_writes_.emplace_back(static_cast<int>(position_), lateness);
  writes_parameter_ |= target.is_leaf() && target.requires_grad();
  watch_.pointer_written(target);
}

void Machine::note_writes(const std::vector<Tensor>& operands, const std::vector<int64_t>& versions) {
  for (size_t k = 0; k < operands.size(); ++k) {
    if (operands[k]._version() != versions[k]) watch_.written(operands[k]);
  }
}

void Machine::drop_dead(const std::vector<int>& mentioned, size_t index) {
  for (const int v : mentioned) {
    Tensor& value = values_[static_cast<size_t>(v)];
    if (is_held(v) || last_uses_[static_cast<size_t>(v)] != static_cast<int>(index) || !value.defined()) continue;
    observations_.push_back(observe(static_cast<int>(index), "v" + std::to_string(v), value));
    value.reset();
  }
}

void Machine::observe_end(Outcome& outcome) {
  outcome.observations = std::move(observations_);
  const int end = outcome.thrown ? outcome.thrown->statement : static_cast<int>(program_.statements.size());
  const auto see = [&](const std::string& what, const Tensor& t) {
    outcome.observations.push_back(observe(end, what, t));
  };
  for (const auto& [v, leaf] : leaves_) {
    see("leaf v" + std::to_string(v), leaf);
    // A written buffer may be one no more; and a view finds out late (see describe() in outcome.cpp).
    if (!leaf.is_leaf() || (leaf.is_view() && !leaf.grad().defined())) continue;
    see("gradient of v" + std::to_string(v), leaf.grad());
  }
  for (size_t v = 0; v < values_.size() && !outcome.thrown; ++v) {
    if (!is_held(static_cast<int>(v))) continue;
    see("held v" + std::to_string(v), values_[v]);
    if (values_[v].defined() && values_[v].retains_grad())
      see("gradient of held v" + std::to_string(v), values_[v].grad());
  }
  see("state of the default generator", at::detail::getDefaultCPUGenerator().get_state());
  see("state of the program's generator", generator_.get_state());
}

Results Machine::take(const std::vector<int>& values) {
  Results tensors;
  for (const int v : values) tensors.push_back(std::move(values_[static_cast<size_t>(v)]));
  return tensors;
}

void Machine::put(const std::vector<int>& values, Results tensors) {
  for (size_t k = 0; k < values.size(); ++k) values_[static_cast<size_t>(values[k])] = std::move(tensors[k]);
}

std::vector<int> Machine::inputs_of(size_t begin, size_t end) const {
  std::set<int> inputs;
  for (size_t i = begin; i < end; ++i) {
    for (const int v : program_.statements[i].in) {
      if (values_[static_cast<size_t>(v)].defined()) inputs.insert(v);
    }
  }
  return {inputs.begin(), inputs.end()};
}

std::vector<int> Machine::results_of(size_t begin, size_t end) const {
  std::vector<int> results;
  for (size_t i = begin; i < end; ++i) {
    for (const int v : program_.statements[i].out) {
      if (is_held(v) || last_uses_[static_cast<size_t>(v)] > static_cast<int>(end)) results.push_back(v);
    }
  }
  return results;
}

}  // namespace retrace::random
