// Damage to tape and plan files that a checksum does not catch: the same on every run. Each either loads a graph that
// check() accepts, or is a UsageError; and no file makes the reader hold more than a small multiple of its size.
#include <gtest/gtest.h>

#define XXH_INLINE_ALL
#include <malloc.h>
#include <xxhash.h>

#include <cstdlib>
#include <new>
#include <random>

#include <retrace/errors.h>

#include "plan/file/file.h"
#include "plan_file/example.h"

namespace {

// What this program has allocated; one thread.
size_t live_bytes = 0, peak_bytes = 0;

}  // namespace

void* operator new(size_t size) {
  void* const p = std::malloc(size);
  if (p == nullptr) throw std::bad_alloc();
  live_bytes += malloc_usable_size(p);
  peak_bytes = std::max(peak_bytes, live_bytes);
  return p;
}
void operator delete(void* p) noexcept {
  if (p != nullptr) live_bytes -= malloc_usable_size(p);
  std::free(p);
}
void operator delete(void* p, size_t) noexcept { operator delete(p); }

namespace retrace::plan::fuzz_test {
namespace {

constexpr size_t kHeader = 20, kChecksum = 8;
constexpr size_t kMultiple = 80, kSlack = 8192;  // of memory; the slack is for messages

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  void mutate(std::string& body, const std::string& other) {
    switch (below(7)) {
      case 0:
        return flip_bit(body);
      case 1:
        return set_byte(body);
      case 2:
        return body.resize(below(body.size() + 1));
      case 3:
        return splice(body, other);
      case 4:
        return (void)body.erase(below(body.size() + 1), 1 + below(8));
      case 5:
        return (void)body.insert(below(body.size() + 1), std::string(1 + below(8), extreme()));
      default:
        return set_number(body);
    }
  }

 private:
  char extreme() {
    static constexpr std::array<unsigned char, 8> kExtremes{0, 1, 2, 0x7f, 0x80, 0x81, 0xfe, 0xff};
    return static_cast<char>(kExtremes[below(kExtremes.size())]);
  }
  void flip_bit(std::string& body) {
    if (body.empty()) return;
    char& byte = body[below(body.size())];
    byte = static_cast<char>(byte ^ (1 << below(8)));
  }
  void set_byte(std::string& body) {
    if (!body.empty()) body[below(body.size())] = extreme();
  }
  void splice(std::string& body, const std::string& other) {
    const size_t from = below(other.size() + 1);
    body.replace(below(body.size() + 1), below(40), other, from, below(40));
  }
  // A varint of any length, or the bits of a double that is no amount.
  void set_number(std::string& body) {
    static const std::array<std::string, 6> kNumbers{std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                                                     std::string("\xff\xff\xff\xff\x07"),
                                                     std::string("\x80\x80\x80\x80\x08"),
                                                     std::string("\0\0\0\0\0\0\xf8\x7f", 8),
                                                     std::string("\0\0\0\0\0\0\xf0\x7f", 8),
                                                     std::string("\0\0\0\0\0\0\xf0\xbf", 8)};
    const std::string& number = kNumbers[below(kNumbers.size())];
    body.replace(std::min(below(body.size() + 1), body.size()), number.size(), number);
  }

  std::mt19937 random_;
};

// As a writer would wrap it: what is left to find is in the body.
std::string wrapped(const std::string& body, const std::string& header) {
  std::string bytes = header;
  for (size_t i = 0; i < 8; ++i) bytes[12 + i] = static_cast<char>(body.size() >> (8 * i));
  bytes += body;
  const uint64_t sum = XXH3_64bits(bytes.data(), bytes.size());
  for (size_t i = 0; i < kChecksum; ++i) bytes += static_cast<char>(sum >> (8 * i));
  return bytes;
}

std::string body_of(const std::string& bytes) { return bytes.substr(kHeader, bytes.size() - kHeader - kChecksum); }

// Whether it was accepted. Fails the test if it was neither accepted rightly nor refused rightly.
template <class Load>
bool outcome(const std::string& bytes, const Load& load) {
  const size_t before = live_bytes;
  peak_bytes = live_bytes;
  bool accepted = false;
  try {
    load(bytes);
    accepted = true;
  } catch (const UsageError&) {
  }
  EXPECT_LE(peak_bytes - before, kMultiple * bytes.size() + kSlack);
  return accepted;
}

bool load_tape(const std::string& bytes) {
  return outcome(bytes, [](const std::string& b) { check(from_bytes(b, "fuzzed")); });
}

TEST(Fuzz, DamagedTapesLoadOrAreRefused) {
  int accepted = 0, refused = 0;
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    const std::string whole = to_bytes(file_test::random_graph(seed % 50, static_cast<int>(seed % 9)));
    const std::string other = to_bytes(file_test::random_graph(seed % 31 + 100, 6));
    Mutator mutator(seed);
    std::string body = body_of(whole);
    for (size_t i = mutator.below(3) + 1; i > 0; --i) mutator.mutate(body, other);
    ++(load_tape(wrapped(body, whole.substr(0, kHeader))) ? accepted : refused);
  }
  EXPECT_GT(accepted, 500);  // so the checks of the body were reached, and passed
  EXPECT_GT(refused, 5'000);
}

TEST(Fuzz, TapesDamagedAnywhereAreRefused) {
  for (uint32_t seed = 0; seed < 5'000; ++seed) {
    const std::string whole = to_bytes(file_test::random_graph(seed % 50, 5));
    Mutator mutator(seed);
    std::string bytes = whole;
    mutator.mutate(bytes, to_bytes(file_test::example()));
    EXPECT_EQ(load_tape(bytes), bytes == whole) << seed;
  }
}

TEST(Fuzz, LengthsThatAreNotThereAllocateNothing) {
  const std::string whole = to_bytes(file_test::random_graph(3, 40));
  const std::string body = body_of(whole);
  for (size_t at = 0; at < body.size(); ++at) {
    for (const auto* length :
         {"\xff\xff\xff\x7f", "\xff\xff\xff\xff\x0f", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}) {
      std::string changed = body;
      changed.replace(at, 1, length);
      load_tape(wrapped(changed, whole.substr(0, kHeader)));
    }
  }
}

// The records that grow most, as many as fit.
TEST(Fuzz, TheWorstTapeIsASmallMultipleOfItsFile) {
  Graph g;
  for (OpId id = 0; id < 20'000; ++id) {
    g.ops.emplace_back();
    g.ops.back().name = std::string(255, 'x');
  }
  EXPECT_TRUE(load_tape(to_bytes(g)));
  g = Graph{};
  g.values.resize(100'000);
  EXPECT_TRUE(load_tape(to_bytes(g)));
  for (Value& v : g.values) v.name = std::string(255, 'x');
  EXPECT_TRUE(load_tape(to_bytes(g)));
  g = Graph{};
  g.values.resize(2'000);
  for (Value& v : g.values) v.ways.resize(kMostWays, {std::string(255, 'x')});
  EXPECT_TRUE(load_tape(to_bytes(g)));
  g = Graph{};
  g.ops.resize(1);
  g.ops[0].outputs.resize(100'000, {{}, std::string(15, 'x'), std::string(15, 'y')});
  EXPECT_TRUE(load_tape(to_bytes(g)));
  g = Graph{};
  g.backward_ops.resize(20'000, {std::string(255, 'x')});
  EXPECT_TRUE(load_tape(to_bytes(g)));
  g = Graph{};
  g.events.resize(100'000);
  EXPECT_TRUE(load_tape(to_bytes(g)));
}

bool load_json(const std::string& text) {
  return outcome(text, [](const std::string& t) { from_json(t, "fuzzed"); });
}

TEST(Fuzz, DamagedPlansLoadOrAreRefused) {
  Plan plan;
  plan.choices.assign(150, Choice::keep());
  plan.seconds = 0.5;
  const std::string whole = to_json(plan);
  int accepted = 0;
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    Mutator mutator(seed);
    std::string text = whole;
    mutator.mutate(text, whole);
    accepted += load_json(text) ? 1 : 0;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 10'000);
}

TEST(Fuzz, TheWorstPlanIsASmallMultipleOfItsFile) {
  for (const std::string& piece : {std::string("0,"), std::string("[],"), std::string("\"\","), std::string("{},")}) {
    std::string text = "{\"retrace_plan\": 2, \"x\": [";
    for (int i = 0; i < 50'000; ++i) text += piece;
    EXPECT_FALSE(load_json(text + "0]}"));
  }
  std::string text = "{\"retrace_plan\": 2";
  for (int i = 0; i < 50'000; ++i) text += ",\"" + std::to_string(i) + "\":0";
  EXPECT_FALSE(load_json(text + "}"));
}

}  // namespace
}  // namespace retrace::plan::fuzz_test
