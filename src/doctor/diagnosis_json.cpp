// The diagnosis of a described training, for scripts. Bytes are whole numbers, shares are fractions of one.
#include <nlohmann/json.hpp>

#include "doctor/diagnosis.h"
#include "doctor/json.h"
#include "doctor/published.h"

namespace retrace::doctor {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Reach& reach) { return {{"largest_batch", reach.batch}, {"longest_sequence", reach.seq}}; }

Json json_of(const PolicyCost& cost, const Model& model) {
  return {{"name", cost.name},
          {"kept_bytes", cost.kept_bytes},
          {"activation_peak_bytes", cost.peak_bytes()},
          {"extra_time", cost.extra},
          {"code", code(cost, model)}};
}

Json json_of(const Option& option, const Model& model) {
  return {{"means", option.means.text()},
          {"zero_stage", option.means.zero_stage},
          {"ranks", option.means.ranks},
          {"fits", option.fits},
          {"device_bytes", option.device_bytes()},
          {"state_bytes", option.states.total()},
          {"host_bytes", option.host_bytes()},
          {"moved_bytes_per_step", option.moved_bytes()},
          {"policy", json_of(option.policy, model)}};
}

Json json_of(const Table& table) {
  Json list = Json::array();
  for (const Tensor& t : table) {
    list.push_back({{"name", t.name},
                    {"layer", name(t.layer)},
                    {"made_by", t.made_by},
                    {"saved_by", t.saved_by},
                    {"formula", t.elements + "*" + std::to_string(t.element_bytes)},
                    {"bytes", t.bytes}});
  }
  return list;
}

Json json_of(const Model& m) {
  return {{"name", m.name},
          {"family", m.family == Family::llama ? "llama" : "gpt"},
          {"layers", m.layers},
          {"hidden", m.hidden},
          {"heads", m.heads},
          {"kv_heads", m.kv_heads},
          {"ffn", m.ffn},
          {"vocab", m.vocab},
          {"seq", m.seq},
          {"batch", m.batch},
          {"dtype", m.dtype.name},
          {"optimizer", m.optimizer.name},
          {"attention", m.attention == Attention::flash ? "flash" : "math"}};
}

Json advice_of(const Diagnosis& d) {
  const Model& model = d.described.model;
  Json json{{"memory_bytes", d.memory.bytes}, {"usable_bytes", d.memory.usable()}, {"fits", d.fits}};
  json["checkpointing_is_enough"] = d.advised.has_value();
  if (d.advised) json["policy"] = json_of(*d.advised, model);
  if (d.advised) json["peak_bytes"] = plus(d.states.total(), d.advised->peak_bytes());
  json["reach"] = json_of(d.reach);
  if (d.advised) return json;
  Json means = Json::array();
  for (const Option& option : d.one_by_one) means.push_back(json_of(option, model));
  json["further_means"] = means;
  const auto add = [&](const char* key, const std::optional<Option>& option) {
    json["smallest"][key] = option ? json_of(*option, model) : Json();
  };
  add("one_device_all_weights", d.smallest.all_weights);
  add("one_device_most_frozen", d.smallest.frozen);
  add("several_devices", d.smallest.several);
  return json;
}

}  // namespace

std::string to_json(const Diagnosis& d) {
  const Checkpointing& c = *d.checkpointing;
  Json json;
  json["model"] = json_of(d.described.model);
  json["parameters"] = d.params.total;
  json["weight_bytes"] = d.states.weights;
  json["gradient_bytes"] = d.states.gradients;
  json["optimizer_bytes"] = d.states.optimizer;
  json["block_activation_bytes"] = saved_bytes(c.block());
  json["logits_bytes"] = saved_bytes(c.head());
  json["activation_peak_bytes"] = d.plain.peak_bytes();
  json["peak_bytes"] = d.plain_bytes();
  json["block"] = json_of(c.block());
  for (const PolicyRow& row : d.policies) {
    Json policy = json_of(row.cost, d.described.model);
    policy["peak_bytes"] = row.peak_bytes;
    if (d.memory.bytes > 0) policy["fits"] = row.fits, policy["reach"] = json_of(row.reach);
    json["policies"].push_back(policy);
  }
  if (d.memory.bytes > 0) json["device"] = advice_of(d);
  if (d.oom) json["oom"] = json_of_oom(*d.oom);
  json["assumed"] = d.described.assumed;
  json["notes"] = d.described.notes;
  for (const PublishedFigure& f : beside_published(d)) {
    json["published"].push_back({{"what", f.what}, {"source", f.source}, {"published", f.published}, {"ours", f.ours}});
  }
  return dumped(json);
}

}  // namespace retrace::doctor
