// The tables of a diagnosis, each with its heading and its notes. They answer "how does that come about?".
#pragma once

#include <string>

#include "doctor/diagnosis.h"

namespace retrace::doctor {

std::string memory_table(const Diagnosis& diagnosis);  // where the memory goes, every line with its formula
std::string policy_table(const Diagnosis& diagnosis);
std::string means_table(const Diagnosis& diagnosis);   // empty if checkpointing is enough
std::string tensor_table(const Diagnosis& diagnosis);  // one block

}  // namespace retrace::doctor
