// Our figures beside those others have published, with the reasons where they differ.
#pragma once

#include <string>
#include <vector>

#include "doctor/diagnosis.h"

namespace retrace::doctor {

struct PublishedFigure {
  std::string what = {}, source = {};
  std::string published = {}, ours = {};
  std::string difference = {};  // a sentence
};

std::vector<PublishedFigure> beside_published(const Diagnosis& diagnosis);
std::string published_text(const Diagnosis& diagnosis);

}  // namespace retrace::doctor
