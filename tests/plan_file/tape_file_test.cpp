// Tape files: round trips, damage of every kind, and the example of docs/tape-format.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <sys/resource.h>

#include <retrace/errors.h>

#include "plan/file/file.h"
#include "plan_file/example.h"
#include "plan_file/folder.h"

namespace retrace::plan::tape_file_test {
namespace {

using file_test::example;
using file_test::Folder;
using file_test::random_graph;

void expect_same(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.signature, b.signature);
  EXPECT_EQ(a.seconds, b.seconds);
  EXPECT_EQ(a.start_bytes, b.start_bytes);
  EXPECT_EQ(a.weight_bytes, b.weight_bytes);
  EXPECT_EQ(a.handles, b.handles);
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i) {
    const auto fields = [](const Value& v) {
      return std::tuple(v.bytes, v.storage, v.producer, v.external, v.name, v.has_gradient);
    };
    EXPECT_EQ(fields(a.values[i]), fields(b.values[i]));
    const auto way = [](const Way& w) { return std::tuple(w.kind, w.bytes, w.store_seconds, w.load_seconds, w.lossy); };
    EXPECT_TRUE(std::ranges::equal(a.values[i].ways, b.values[i].ways, {}, way, way));
  }
  ASSERT_EQ(a.ops.size(), b.ops.size());
  for (size_t i = 0; i < a.ops.size(); ++i) {
    const auto fields = [](const Op& o) {
      return std::tuple(o.name, o.seconds, o.shortcut_seconds, o.working_bytes, o.fresh, o.module, o.read_bytes);
    };
    EXPECT_EQ(fields(a.ops[i]), fields(b.ops[i]));
    const auto output = [](const Output& o) { return std::tuple(o.shape, o.dtype, o.device); };
    EXPECT_TRUE(std::ranges::equal(a.ops[i].outputs, b.ops[i].outputs, {}, output, output));
    ASSERT_EQ(a.ops[i].args.size(), b.ops[i].args.size());
    for (size_t k = 0; k < a.ops[i].args.size(); ++k) {
      const auto parts = [](const Arg& arg) {
        return std::tuple(arg.value, arg.becomes, arg.shape_only, arg.has_gradient);
      };
      EXPECT_EQ(parts(a.ops[i].args[k]), parts(b.ops[i].args[k]));
    }
  }
  const auto backward_op = [](const BackwardOp& o) { return std::tuple(o.name, o.seconds, o.after_event); };
  EXPECT_TRUE(std::ranges::equal(a.backward_ops, b.backward_ops, {}, backward_op, backward_op));
  const auto backward = [](const Backward& one) { return std::tuple(one.begin, one.end, one.records); };
  EXPECT_TRUE(std::ranges::equal(a.backwards, b.backwards, {}, backward, backward));
  ASSERT_EQ(a.events.size(), b.events.size());
  for (size_t i = 0; i < a.events.size(); ++i) {
    const auto fields = [](const Event& e) {
      return std::tuple(e.kind, e.id, e.other_bytes, e.other_peak, e.gradient_bytes);
    };
    EXPECT_EQ(fields(a.events[i]), fields(b.events[i]));
  }
}

void expect_refused(const std::string& bytes, const std::string& why) {
  try {
    from_bytes(bytes, "run.tape");
    ADD_FAILURE() << "accepted, though: " << why;
  } catch (const UsageError& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with("[load_graph] 'run.tape': ")) << what;
    EXPECT_NE(what.find(why), std::string::npos) << what;
  }
}

TEST(TapeFile, WhatIsSavedIsLoaded) {
  const Folder folder;
  const std::string path = folder / "run.tape";
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Graph g = random_graph(seed, 100);
    save(g, path);
    expect_same(g, load_graph(path));
  }
  EXPECT_EQ(folder.files(), 1U);
}

TEST(TapeFile, AnEmptyGraphIsAFileToo) { expect_same(Graph{}, from_bytes(to_bytes(Graph{}), "empty")); }

TEST(TapeFile, LargestAndSmallestNumbersSurvive) {
  Graph g = example();
  g.signature = UINT64_MAX;
  g.start_bytes = g.weight_bytes = int64_t{1} << 60;
  g.events[0].other_bytes = int64_t{1} << 60;
  g.events[1].other_bytes = 0;
  g.events[1].other_peak = int64_t{1} << 60;
  g.ops[0].seconds = 5e-324;
  g.ops[0].name = std::string(255, 'x');
  expect_same(g, from_bytes(to_bytes(g), "run.tape"));
}

TEST(TapeFile, IsCompact) {
  const Graph g = random_graph(1, 10'000);
  size_t records = g.values.size() + g.ops.size() + g.handles.size() + g.events.size() + g.backward_ops.size();
  for (const Value& v : g.values) records += v.ways.size();
  for (const Op& o : g.ops) records += o.outputs.size();
  EXPECT_LT(to_bytes(g).size(), 16 * records);
}

TEST(TapeFile, WhatCannotBeReadBackIsNotSaved) {
  const Folder folder;
  Graph g = example();
  g.seconds = -1;
  EXPECT_THROW(save(g, folder / "run.tape"), UsageError);
  g = example();
  g.ops[0].name = std::string(256, 'x');
  EXPECT_THROW(save(g, folder / "run.tape"), UsageError);
  EXPECT_EQ(folder.files(), 0U);
}

TEST(TapeFile, AMissingFileIsNamed) {
  const Folder folder;
  const std::string path = folder / "no.tape";
  try {
    load_graph(path);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos) << error.what();
  }
  EXPECT_THROW(load_graph(folder / "."), UsageError);
  EXPECT_THROW(load_graph("/dev/zero"), UsageError);
  EXPECT_THROW(load_graph(""), UsageError);
}

TEST(TapeFile, WhatIsNotAFileIsNotReplaced) {
  const Folder folder;
  EXPECT_THROW(save(example(), folder / "."), UsageError);
  EXPECT_THROW(save(example(), folder / "missing/run.tape"), UsageError);
  EXPECT_THROW(save(example(), "/dev/null"), UsageError);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(TapeFile, AWriteThatFailsLeavesWhatWasThere) {
  const Folder folder;
  const std::string path = folder / "run.tape";
  save(example(), path);
  // A full disk, as seen by one process.
  auto* const handler_before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(save(random_graph(1, 10'000), path), UsageError);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler_before);
  expect_same(example(), load_graph(path));
  EXPECT_EQ(folder.files(), 1U);
}

TEST(TapeFile, ForeignFilesAreRefused) {
  expect_refused("PNG and not a tape at all, however long it is", "is not a Retrace tape");
  expect_refused("{}", "is not a Retrace tape");
  expect_refused("", "is cut short");
  std::string as_text = to_bytes(example());
  as_text.erase(6, 1);  // a transfer that made \r\n into \n
  expect_refused(as_text, "is not a Retrace tape");
}

TEST(TapeFile, EveryTruncationIsRefused) {
  const std::string bytes = to_bytes(example());
  for (size_t size = 0; size < bytes.size(); ++size) expect_refused(bytes.substr(0, size), "is cut short");
  expect_refused(bytes + '\0', "more bytes than it says");
}

TEST(TapeFile, EveryFlippedBitIsRefused) {
  const std::string bytes = to_bytes(example());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(from_bytes(damaged, "run.tape"), UsageError) << "bit " << bit;
  }
}

TEST(TapeFile, LaterVersionsAreRefusedByName) {
  std::string bytes = to_bytes(example());
  bytes[8] = 4;
  expect_refused(bytes, "is of version 4, and this Retrace reads up to 3");
  bytes[8] = 0;
  expect_refused(bytes, "version 0");
}

std::string from_hex(const std::string& text) {
  std::istringstream hex(text);
  std::string bytes;
  for (unsigned byte = 0; hex >> std::hex >> byte;) bytes += static_cast<char>(byte);
  return bytes;
}

// As version 1 wrote it.
TEST(TapeFile, VersionOneIsRead) {
  const std::string bytes = from_hex(
      "52 54 54 41 50 45 0d 0a 01 00 00 00 6f 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11 00 00 00 00 00 00 e0 3f ac "
      "02 "
      "c8 01 01 09 61 74 65 6e 3a 3a 73 69 6e 02 10 01 00 01 10 02 01 02 02 00 00 00 00 00 00 d0 3f 00 00 00 00 00 00 "
      "c0 "
      "3f 01 00 00 00 00 00 00 00 b0 3f 00 00 00 00 00 00 a0 3f 10 01 00 00 01 02 01 01 05 01 01 d8 04 00 00 00 01 00 "
      "80 "
      "01 00 03 01 20 20 20 04 01 20 00 00 05 01 1f 00 00 b7 62 56 a2 a5 27 40 09");
  Graph expected = example();
  expected.values[0].name = expected.ops[0].module = "";
  expected.values[1].ways[0].kind = "encoded";
  expected.ops[0].outputs.clear();
  expected.ops[0].read_bytes.clear();
  expected.backward_ops.clear();
  expected.backwards.clear();
  expect_same(expected, from_bytes(bytes, "old"));
}

// As version 2 wrote it.
TEST(TapeFile, VersionTwoIsRead) {
  const std::string bytes = from_hex(
      "52 54 54 41 50 45 0d 0a 02 00 00 00 a8 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11 00 00 00 00 00 00 e0 3f ac "
      "02 "
      "c8 01 08 00 01 78 04 62 69 74 73 09 61 74 65 6e 3a 3a 73 69 6e 03 6e 65 74 07 66 6c 6f 61 74 33 32 03 63 70 75 "
      "09 "
      "61 74 65 6e 3a 3a 63 6f 73 02 10 01 00 01 01 10 02 01 02 00 01 02 00 02 00 00 00 00 00 00 d0 3f 00 00 00 00 00 "
      "00 "
      "c0 3f 01 03 00 00 00 00 00 00 b0 3f 00 00 00 00 00 00 a0 3f 10 01 00 00 01 02 04 01 05 06 02 02 02 01 01 05 01 "
      "01 "
      "d8 04 00 00 00 01 00 80 01 00 03 01 20 20 20 04 01 20 00 00 05 01 1f 00 00 01 07 00 00 00 00 00 00 c0 3f 06 77 "
      "09 "
      "14 5f 58 0a 10 19 ");
  Graph expected = example();
  expected.ops[0].read_bytes.clear();
  expected.backwards.clear();
  expect_same(expected, from_bytes(bytes, "old"));
}

// What follows "```hex" in the page: an offset, bytes, and after two blanks whatever is said about them.
std::string bytes_of_the_page() {
  std::ifstream page(RETRACE_SOURCE_DIR "/docs/tape-format.md");
  std::string bytes, line;
  while (std::getline(page, line) && line != "```hex") {
  }
  while (std::getline(page, line) && line != "```") {
    bytes += from_hex(line.substr(6, line.find("  ", 6) - 6));
  }
  return bytes;
}

TEST(TapeFile, TheExampleInTheDocsIsTrue) {
  const std::string bytes = bytes_of_the_page();
  EXPECT_EQ(bytes, to_bytes(example()));
  expect_same(example(), from_bytes(bytes, "docs"));
}

}  // namespace
}  // namespace retrace::plan::tape_file_test
