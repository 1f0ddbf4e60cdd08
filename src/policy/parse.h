// Policies as the command line spells them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <retrace/policy.h>

namespace retrace::plan {
struct Graph;
}

namespace retrace {

// The spellings parse_policy() takes, for people: "keep_all", ..., "every:N", ..., "budget:B".
const std::vector<std::string>& policy_spellings();

// A whole number of 1 or more after the colon of `text`, "every:2". Throws UsageError.
int64_t parse_count(const std::string& text);

// "keep_all" (or "full": full storage), "recompute_all", "every:2", "selective", "selective:aten::mm,aten::bmm",
// "budget:1.5GiB", "budget:40%". Throws UsageError naming the near ones. `selective_of` makes the policy that keeps
// named operators, and knows which there are: retrace::selective where there is LibTorch. `also`: what else the caller
// takes, for the message.
using SelectiveOf = std::function<Policy(const std::vector<std::string>&)>;
Policy parse_policy(const std::string& text, const SelectiveOf& selective_of,
                    const std::vector<std::string>& also = {});

// For a tape: an operator it does not have is a UsageError with the near ones.
Policy parse_policy(const std::string& text, const plan::Graph& graph);

}  // namespace retrace
