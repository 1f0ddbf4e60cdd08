// Bytes over the time of a step, by owner, in as many points as a screen can show.
#pragma once

#include <cstdint>
#include <vector>

#include "report/clock.h"

namespace retrace::report {

struct CurvePoint {
  double seconds;  // when the event begins
  size_t event;
  plan::Owners owners;  // at the event's highest point
};

// All events if there are few. Else, of each of `buckets` equal stretches of time, its lowest and its highest event and the
// last one: the peak is always among them, and no rise or fall is lost.
std::vector<CurvePoint> curve_points(const StepClock& clock, const plan::History& history, size_t buckets);

// Of the whole step, by time.
double average_bytes(const StepClock& clock, const plan::History& history);

}  // namespace retrace::report
