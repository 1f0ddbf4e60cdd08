// A byte curve over a step, drawn with characters.
//
//        ▼ peak 426.0 MiB
//   426.0 MiB ┤    ▂▆█▇▃
//   213.0 MiB ┤ ▂▅███████▆▃
//         0 B ┼────────────────
//             forward │ backward
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/step_times.h"

namespace retrace::report {

struct CurveOptions {
  size_t width = 80;         // columns, labels included
  size_t height = 8;         // rows of the curve itself
  int64_t top_bytes = 0;     // of the scale; 0: the curve's own peak
  size_t first_unpack = 0;   // event at which backward begins; 0: not marked
  std::string peak_label{};  // beside the mark: "peak 426.0 MiB"
};

// `event_peaks`: by event, the most that was live. Every line ends in a newline and none in a blank.
std::string draw_curve(const std::vector<int64_t>& event_peaks, const StepTimes& times, const CurveOptions& options);

}  // namespace retrace::report
