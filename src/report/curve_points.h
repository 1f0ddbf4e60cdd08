// Bytes over the time of a step, by owner, in as many points as a screen can show.
#pragma once

#include <vector>

#include "plan/simulate/history.h"
#include "report/step_times.h"

namespace retrace::report {

struct CurvePoint {
  double seconds;  // when the event begins
  size_t event;
  plan::Owners owners;  // at the event's highest point
};

// All events if there are few. Else, of each of `buckets` equal stretches of time, its lowest and its highest event and
// the last one, and the step's first: the peak is always among them, and no rise or fall is lost.
std::vector<CurvePoint> curve_points(const StepTimes& times, const plan::History& history, size_t buckets);

}  // namespace retrace::report
