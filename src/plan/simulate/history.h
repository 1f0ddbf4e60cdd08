// What a simulated step did, event by event: for reports. A search never asks for it.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/graph/graph.h"
#include "plan/simulate/simulator.h"

namespace retrace::plan {

struct History {
  enum class Owner : uint8_t { kept, rebuilt, other };  // other: still in the program's hands
  struct Live {
    ValueId value;
    int64_t bytes;
    Owner owner;
  };
  enum class Fate : uint8_t { not_asked, kept, encoded, rebuilt };  // how backward got a value
  struct Rebuild {
    OpId op;
    size_t event;  // that asked for it
    double seconds;
  };

  // Set before the run: what is live at the highest point of this event is listed in `live`.
  size_t live_event = SIZE_MAX;

  std::vector<Owners> owners;          // by event, at its highest point
  std::vector<double> replay_seconds;  // by event: rebuilding, storing and loading
  std::vector<Rebuild> rebuilds;       // in the order they ran
  std::vector<Fate> fates;             // by value; kept: each time that backward asked for it
  std::vector<Live> live;              // of the tape's values

  void begin(size_t values, size_t events) {
    fates.assign(values, Fate::not_asked);
    owners.assign(events, {});
    replay_seconds.assign(events, 0);
    rebuilds.clear();
    live.clear();
  }
};

}  // namespace retrace::plan
