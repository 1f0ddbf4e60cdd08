#include "tape/handle_table.h"

#include <algorithm>

#include "tape/handle.h"

namespace retrace {
namespace {

using Position = size_t Handle::Positions::*;

void append(auto& handles, Handle& handle, Position position) {
  handle.positions().*position = handles.size();
  handles.push_back(&handle);
}

void erase(auto& handles, Handle& handle, Position position) {
  const size_t place = handle.positions().*position;
  handles.back()->positions().*position = place;
  handles[place] = handles.back();
  handles.pop_back();
}

size_t value_of(const Handle& handle) {
  return static_cast<size_t>(handle.value() != kNone ? handle.value() : handle.holds());
}

}  // namespace

void HandleTable::add_to(std::vector<Handle*>& all, Handle& handle) {
  append(all, handle, &Handle::Positions::among_all);
  const size_t value = value_of(handle);
  if (value >= of_values_.size()) of_values_.resize(value + 1);
  append(of_values_[value], handle, &Handle::Positions::of_value);
}

void HandleTable::remove_from(std::vector<Handle*>& all, Handle& handle) {
  erase(all, handle, &Handle::Positions::among_all);
  erase(of_values_[value_of(handle)], handle, &Handle::Positions::of_value);
}

void HandleTable::add(Handle& handle) {
  add_to(handles_, handle);
  // A backward that makes a graph will hardly walk it before it ends: nothing is worth holding for it yet.
  for (const uint64_t round : rounds_) handle.consume(round);
}

void HandleTable::remove(Handle& handle) { remove_from(handles_, handle); }
void HandleTable::add_keeper(Handle& handle) { add_to(keepers_, handle); }
void HandleTable::remove_keeper(Handle& handle) { remove_from(keepers_, handle); }

HandleTable::OfValue HandleTable::of(ValueId value) const {
  return static_cast<size_t>(value) < of_values_.size() ? of_values_[static_cast<size_t>(value)] : OfValue();
}

bool HandleTable::has_graph_to_come() const {
  const auto waits = [](const Handle* handle) { return !handle->unpacked(); };
  return std::any_of(handles_.begin(), handles_.end(), waits) || std::any_of(keepers_.begin(), keepers_.end(), waits);
}

bool HandleTable::join_round(uint64_t round) {
  if (round == 0 || std::find(rounds_.begin(), rounds_.end(), round) != rounds_.end()) return false;
  rounds_.push_back(round);
  return true;
}

bool HandleTable::leave_round(uint64_t round) { return std::erase(rounds_, round) > 0; }

int32_t HandleTable::rounds_owing(const Handle& handle) const {
  return static_cast<int32_t>(
      std::count_if(rounds_.begin(), rounds_.end(), [&](uint64_t round) { return !handle.consumed_in(round); }));
}

size_t HandleTable::bytes() const {
  return handles_.size() * (sizeof(Handle) + sizeof(void*)) + of_values_.capacity() * sizeof(OfValue);
}

}  // namespace retrace
