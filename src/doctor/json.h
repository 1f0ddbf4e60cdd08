// What the doctor's JSON writers share.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "doctor/oom.h"

namespace retrace::doctor {

// Bytes that are no UTF-8 (a path may have such) are replaced.
inline std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

inline nlohmann::ordered_json json_of_oom(const OomMessage& message) {
  nlohmann::ordered_json json;
  const auto add = [&](const char* key, const std::optional<int64_t>& bytes) {
    if (bytes) json[key] = *bytes;
  };
  add("tried_bytes", message.tried_bytes);
  add("capacity_bytes", message.capacity_bytes);
  add("allocated_bytes", message.allocated_bytes);
  add("cached_bytes", message.cached_bytes);
  add("free_bytes", message.free_bytes);
  add("outside_bytes", message.outside_bytes);
  add("at_least_bytes", message.at_least_bytes());
  json["fragmented"] = message.fragmented();
  for (const auto& owner : message.owners) json["held_by"][owner.name] = owner.bytes;
  return json;
}

}  // namespace retrace::doctor
