// The diagnosis of a recorded step, for people and for scripts.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "doctor/json.h"
#include "doctor/tape_diagnosis.h"
#include "doctor/words.h"
#include "report/table.h"

namespace retrace::doctor {
namespace {

using report::human_bytes;
using Rows = std::vector<std::vector<std::string>>;
constexpr size_t kMostGroups = 12;  // of activations, by layer

std::string memory_text(const Memory& memory) {
  return memory.reserved == 0 ? fmt::format("{} has {}", memory.from, human_bytes(memory.bytes))
                              : fmt::format("{} has {}, {} of it to use", memory.from, human_bytes(memory.bytes),
                                            human_bytes(memory.usable()));
}

std::string headline(const TapeDiagnosis& d) {
  return wrapped(fmt::format("{}: a step of {} operators{}{}", d.source, number_text(static_cast<int64_t>(d.operators)),
                             d.seconds > 0 ? " and " + report::human_seconds(d.seconds) : "",
                             d.batch ? fmt::format(", at batch {}", number_text(*d.batch)) : ""));
}

std::string verdict(const TapeDiagnosis& d) {
  const std::string step = "A step takes " + human_bytes(d.plain_bytes);
  if (d.memory.bytes == 0) {
    return wrapped(fmt::format("{}, and can do with {} at the least. Say --memory to learn which policy to take.", step,
                               human_bytes(d.smallest_bytes)));
  }
  if (d.fits()) return wrapped(fmt::format("FITS as it is. {}; {}.", step, memory_text(d.memory)));
  const std::string text = wrapped(fmt::format("DOES NOT FIT as it is. {}; {}.", step, memory_text(d.memory)));
  const TapeRow* row = d.advised();
  if (!row) {
    const auto further =
        std::find_if(d.means.begin(), d.means.end(), [](const TapeMeans& means) { return means.fits; });
    return text + wrapped(fmt::format("CHECKPOINTING ALONE CANNOT DO IT: the smallest budget that holds is {}. {}",
                                      human_bytes(d.smallest_bytes),
                                      further == d.means.end()
                                          ? "None of the means below is enough either."
                                          : fmt::format("The smallest means that does: {}, which leaves {}.",
                                                        further->name, human_bytes(further->bytes))));
  }
  return text + wrapped(fmt::format("FITS WITH {}: predicted peak {}, about {} time.",
                                    row->name == "budget" ? "A BUDGET" : "THE POLICY " + row->name,
                                    human_bytes(row->peak_bytes), extra_text(row->extra)));
}

std::string batches(const TapeDiagnosis& d) {
  if (!d.batch || d.memory.bytes == 0) return "";
  const TapeRow* best = &d.rows.front();
  for (const TapeRow& row : d.rows) best = row.largest_batch > best->largest_batch ? &row : best;
  if (d.planned && d.planned->largest_batch > best->largest_batch) best = &*d.planned;
  return wrapped(fmt::format("The largest batch that fits is {} as it is, and {} with {}.",
                             number_text(d.rows.front().largest_batch), number_text(best->largest_batch),
                             best->name == "budget" ? "a budget" : best->name));
}

std::string advice(const TapeDiagnosis& d) {
  const TapeRow* row = d.advised();
  if (d.memory.bytes == 0 || d.fits() || !row) return "";
  std::string why = "Why this one: of what fits, it takes the least time.";
  const TapeRow* other = nullptr;
  for (const TapeRow& candidate : d.rows) {
    if (candidate.fits && &candidate != row && (!other || candidate.extra < other->extra)) other = &candidate;
  }
  why +=
      other ? fmt::format(" The next is {}, with {}.", other->name, extra_text(other->extra)) : " Nothing else does.";
  return heading("To paste") + "  " + row->code + "\n" + wrapped(why);
}

std::string memory_table(const TapeDiagnosis& d) {
  const int64_t state = std::max<int64_t>(d.facts.before - d.start_gradients, 0);
  const int64_t rest = d.at_peak.total() - d.at_peak.weights - d.at_peak.gradients - d.at_peak.kept - state;
  Rows rows;
  rows.push_back({"weights", human_bytes(d.at_peak.weights), ""});
  rows.push_back({"gradients", human_bytes(d.at_peak.gradients), "those there are by then"});
  rows.push_back({"live before the step", human_bytes(state), "optimizer state, data"});
  if (d.added_state > 0)
    rows.push_back({"optimizer state to come", human_bytes(d.added_state), "not made when the tape was recorded"});
  rows.push_back({"activations", human_bytes(d.at_peak.kept), "what autograd saved for backward"});
  rows.push_back({"everything else", human_bytes(rest), "results in use, gradients of activations"});
  rows.push_back({"all at once", human_bytes(d.plain_bytes), ""});
  return heading("Where the memory goes, at the fullest moment") + columns(rows, "lrl", 2);
}

std::string kept_table(const TapeDiagnosis& d) {
  if (d.facts.kept.empty()) return "";
  Rows rows{{"made by", "bytes", "tensors"}};
  KeptGroup rest{.name = "others"};
  for (size_t i = 0; i < d.facts.kept.size(); ++i) {
    const KeptGroup& group = d.facts.kept[i];
    if (i < kMostGroups) {
      rows.push_back({group.name, human_bytes(group.bytes), number_text(group.tensors)});
    } else {
      rest.bytes += group.bytes;
      rest.tensors += group.tensors;
    }
  }
  if (rest.tensors > 0) rows.push_back({rest.name, human_bytes(rest.bytes), number_text(rest.tensors)});
  rows.push_back({"all", human_bytes(d.facts.activations), ""});
  return heading("What autograd has saved when backward begins") + columns(rows, "lrr", 2);
}

std::string policy_table(const TapeDiagnosis& d) {
  const bool known = d.memory.bytes > 0, batch = known && d.batch.has_value();
  Rows rows{{"policy", "peak of a step", "extra time", known ? "fits" : "", batch ? "batch up to" : ""}};
  const auto add = [&](const TapeRow& row) {
    rows.push_back({row.name, human_bytes(row.peak_bytes), extra_text(row.extra),
                    !known     ? ""
                    : row.fits ? "yes"
                               : "no",
                    batch ? number_text(row.largest_batch) : ""});
  };
  for (const TapeRow& row : d.rows) add(row);
  if (d.planned) add(*d.planned);
  return heading("What each policy would do") + columns(rows, "lrrrr", 2) +
         wrapped(
             "Peaks are simulated by the runtime's own rules; times are those of the recorded operators that run "
             "again.",
             2);
}

std::string means_table(const TapeDiagnosis& d) {
  if (d.means.empty()) return "";
  Rows rows{{"beside checkpointing", "leaves", "fits"}};
  for (const TapeMeans& means : d.means)
    rows.push_back({means.name, human_bytes(means.bytes), means.fits ? "yes" : "no"});
  return heading("What each further means would leave on the device") + columns(rows, "lrr", 2);
}

std::string oom_text(const TapeDiagnosis& d) {
  std::string text;
  if (!d.oom) return text;
  for (const std::string& sentence : explain(*d.oom)) text += wrapped(sentence);
  return text + "\n";
}

nlohmann::ordered_json json_of(const TapeRow& row, const TapeDiagnosis& d) {
  nlohmann::ordered_json json{{"name", row.name}, {"peak_bytes", row.peak_bytes}, {"extra_time", row.extra}};
  if (d.memory.bytes > 0) json["fits"] = row.fits;
  if (d.memory.bytes > 0 && d.batch) json["largest_batch"] = row.largest_batch;
  json["code"] = row.code;
  return json;
}

}  // namespace

std::string to_text(const TapeDiagnosis& d) {
  return headline(d) + "\n" + oom_text(d) + verdict(d) + batches(d) + advice(d) + memory_table(d) + kept_table(d) +
         policy_table(d) + means_table(d);
}

std::string to_json(const TapeDiagnosis& d) {
  nlohmann::ordered_json json;
  json["source"] = d.source;
  if (d.batch) json["batch"] = *d.batch;
  json["seconds"] = d.seconds;
  json["weight_bytes"] = d.at_peak.weights;
  json["gradient_bytes"] = d.at_peak.gradients;
  json["before_bytes"] = d.facts.before;
  json["added_state_bytes"] = d.added_state;
  json["activation_bytes"] = d.facts.activations;
  for (const KeptGroup& group : d.facts.kept) {
    json["activations"].push_back({{"name", group.name}, {"bytes", group.bytes}, {"tensors", group.tensors}});
  }
  json["peak_bytes"] = d.plain_bytes;
  json["smallest_bytes"] = d.smallest_bytes;
  for (const TapeRow& row : d.rows) json["policies"].push_back(json_of(row, d));
  if (d.planned) json["policies"].push_back(json_of(*d.planned, d));
  if (d.memory.bytes > 0) {
    const TapeRow* row = d.advised();
    json["device"] = {{"memory_bytes", d.memory.bytes}, {"usable_bytes", d.memory.usable()}, {"fits", d.fits()}};
    json["device"]["advised"] = row ? json_of(*row, d) : nlohmann::ordered_json();
    for (const TapeMeans& means : d.means) {
      json["device"]["further_means"].push_back({{"name", means.name}, {"bytes", means.bytes}, {"fits", means.fits}});
    }
  }
  if (d.oom) json["oom"] = json_of_oom(*d.oom);
  return dumped(json);
}

std::string to_text(const OomMessage& message) {
  std::string text;
  for (const std::string& sentence : explain(message)) text += wrapped(sentence);
  const auto least = message.at_least_bytes();
  if (least && !message.needed_bytes) {
    const std::string there =
        message.capacity_bytes ? fmt::format(", and {} are there", human_bytes(*message.capacity_bytes)) : "";
    text += wrapped(
        fmt::format("So the step needs at least {}{}. How much more it would have needed, the message does not tell.",
                    human_bytes(*least), there));
  }
  text += heading("To learn which policy fits, say what was trained, with the same --oom:");
  text += "  retrace doctor --oom FILE --params 7B --seq 8192 --batch 16    or any other description\n";
  text += "  retrace doctor --oom FILE b2.tape b4.tape --batch 16           steps recorded at two smaller batches\n";
  if (message.source == OomSource::cpu || message.source == OomSource::retrace_limit ||
      message.source == OomSource::retrace_budget) {
    const int64_t bytes = message.needed_bytes.value_or(message.capacity_bytes.value_or(0));
    text += heading("Or paste, and let the planner see to it:");
    text += bytes > 0
                ? fmt::format("  retrace::Session session(retrace::budget({}));   // session.step() around each step\n",
                              bytes)
                : "  retrace::Session session(retrace::budget(\"60%\"));   // of what a step takes now; session.step() "
                  "around each\n";
  }
  return text;
}

std::string to_json(const OomMessage& message) {
  nlohmann::ordered_json json;
  json["oom"] = json_of_oom(message);
  return dumped(json);
}

}  // namespace retrace::doctor
