// Runs the retrace command, and keeps what its tests write in a folder of their own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace retrace::test::cli {

struct Ran {
  int code = -1;
  std::string out, err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

Ran retrace(const std::vector<std::string>& arguments);

// A mistake of the user: exit code 2 (or another), one line on stderr that has all of `words`, nothing on stdout.
void expect_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& words, int code = 2);

// One per test; gone with it.
class Folder : public ::testing::Test {
 protected:
  Folder();
  ~Folder() override;
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& content) const;
  std::string read(const std::string& name) const;
  std::vector<std::string> files() const;  // names, sorted

  const std::string& hand_tape();  // of report::make_hand_net(), written when first asked for

 private:
  std::filesystem::path folder_;
  std::string hand_tape_;
};

}  // namespace retrace::test::cli
