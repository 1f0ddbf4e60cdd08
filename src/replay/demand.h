// Who needs what: reference counts over the tape, twice.
//
// A value is needed by a handle, or by an op that is needed to rebuild another value. It passes the need on to the op
// that makes it only while it is not itself a source (held, or for `pending` also rebuilt). Counts move along the tape
// with a work list, never by recursion: chains are as long as models are deep.
#pragma once

#include "tape/tape.h"

namespace retrace {

struct Alive {
  static int32_t& of(Value& v) { return v.alive; }
  static int32_t& of(Op& op) { return op.alive; }
  static bool is_source(const Value& v) { return v.producer == kNone || v.held; }
  static void nobody(Tape& tape, ValueId id) { tape.nobody_alive(id); }
};

struct Pending {
  static int32_t& of(Value& v) { return v.pending; }
  static int32_t& of(Op& op) { return op.pending; }
  static bool is_source(const Value& v) { return v.producer == kNone || v.held || v.rebuilt; }
  static void nobody(Tape& tape, ValueId id) { tape.nobody_pending(id); }
};

// One more (+1) or one less (-1) need of a value.
template <class Kind>
void change_need(Tape& tape, ValueId value, int32_t by);

// Call before a value with content becomes a source, or after it ceased to be one: its need stops at it, or goes on to
// its producer again.
template <class Kind>
void becomes_source(Tape& tape, ValueId value);
template <class Kind>
void ceases_source(Tape& tape, ValueId value);

}  // namespace retrace
