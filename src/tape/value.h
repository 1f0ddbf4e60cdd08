// A value: one content of one storage. Its fields stand in one struct per concern.
#pragma once

#include <c10/core/Storage.h>

#include <optional>
#include <vector>

#include "store/content.h"
#include "tape/op.h"

namespace retrace {

// What the value is.
struct ValueOrigin {
  StorageId storage = kNone;
  OpId producer = kNone;     // none: a root. It cannot be rebuilt, only held
  OpId recorded_at = kNone;  // how many ops had been recorded: orders values in time, roots included
  at::ScalarType dtype = at::kFloat;
  bool external = false;   // from outside the step: a parameter, an input, a buffer
  bool scratch = false;    // not the same bit for bit when rebuilt, and need not be
  bool unwritten = false;  // part of it is memory that no recorded operator has written
  int64_t bytes = 0;
  int64_t written_begin = 0, written_end = 0;  // bytes that were written so far, while `unwritten`
};

// How its content is held, and by whom. What ought to become of it is for tape/fate.h to say.
struct ValueHolding {
  const store::Kind* kind = nullptr;                               // how to hold it; null: as it is
  store::Content held;                                             // while alive: roots, kept values, cut vertices
  c10::Storage rebuilt;                                            // strong while pending
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> given;  // what autograd was given, and may still have
  int64_t last_used = 0;                                           // by the tape's clock
  int32_t handles = 0;                                             // that stand for it
  int32_t holders = 0;                                             // that its bytes count as kept for: `held`, handles
  bool keep = false;        // the policy wants it held, and every later content of its storage with it
  bool expendable = false;  // goes before others when memory runs short
  bool consumed = false;    // an op on the tape reads it
};

// A mark of the content as its operator left it, or as it was first seen: to notice writes that LibTorch does not
// count.
struct ValueMark {
  bool marked = false;
  bool marked_whole = false;  // `mark` is of all of its bytes, not of a sample
  bool dense = false;         // an operator wrote every byte of its storage
  bool fleeting = false;      // may be written unnoticed: operators that read it are not run again
  int32_t looks = 0;          // how often somebody looked whether it was written
  uint64_t mark = 0;
  std::vector<uint64_t> parts;  // in place of `mark`, for a large content of which all bytes are marked
  uint64_t first_look = 0;      // where somebody looked first: a place, see KnownSteps
};

// Notes of those who walk over the tape, each for itself.
struct ValueScratch {
  int32_t uses = 0;            // within the running replay
  OpId last_read_by = kNone;   // of the ops that backward has not gone past
  uint32_t priced = 0;         // the latest walk that came here: see Tape::next_pricing()
  bool segment_start = false;  // a rebuild in segments stopped here
  bool weighed = false;        // a root, against what can be forgotten because it is held
};

// All in one, since plan/simulate/demand.h reads the values of any tape by these names.
struct Value : ValueOrigin, ValueHolding, ValueMark, DemandCounts, ValueScratch {};

inline bool is_held(const Value& v) { return static_cast<bool>(v.held); }

}  // namespace retrace
