#include "demo_text.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include <ATen/ATen.h>

#include "commands.h"

namespace retrace::cli {

namespace {

std::string shipped_text() {
  std::error_code unreadable;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  const auto installed = program.parent_path().parent_path() / "share" / "retrace" / "lighthouse.txt";
  for (const std::filesystem::path& path : {installed, std::filesystem::path(RETRACE_DEMO_TEXT)}) {
    if (std::filesystem::exists(path, unreadable)) return path.string();
  }
  throw BadInput("[demo] the text that ships with Retrace is neither at " + installed.string() +
                 " nor at " RETRACE_DEMO_TEXT ", nothing was trained. Give a text of your own with --text FILE.");
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    throw BadInput("[demo] cannot read '" + path + "', nothing was trained. Check the path given to --text.");
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

DemoText::DemoText(const std::string& path, int64_t length) : length_(length) {
  const std::string source = path.empty() ? shipped_text() : path;
  const std::string text = read(source);
  if (static_cast<int64_t>(text.size()) <= length) {
    throw BadInput("[demo] '" + source + "' has " + std::to_string(text.size()) +
                   " characters, nothing was trained. A passage " + "and the character after it take " +
                   std::to_string(length + 1) + "; use a longer text.");
  }
  std::array<int64_t, 256> token{};
  for (const char c : std::set<char>(text.begin(), text.end())) token[static_cast<unsigned char>(c)] = vocabulary_++;
  tokens_ = at::empty({static_cast<int64_t>(text.size())}, at::kLong);
  int64_t* out = tokens_.data_ptr<int64_t>();
  for (const char c : text) *out++ = token[static_cast<unsigned char>(c)];
}

TextBatch DemoText::batch(int64_t rows, uint64_t seed) const {
  std::mt19937_64 random(seed);
  TextBatch batch{at::empty({rows, length_}, at::kLong), at::empty({rows, length_}, at::kLong)};
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(characters() - length_));
    batch.tokens[row].copy_(tokens_.narrow(0, begin, length_));
    batch.targets[row].copy_(tokens_.narrow(0, begin + 1, length_));
  }
  return batch;
}

}  // namespace retrace::cli
