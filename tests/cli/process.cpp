#include "process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "plan/file/file.h"
#include "report/hand_trace.h"

namespace retrace::test::cli {

namespace {

std::string whole(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path, std::ios::binary).rdbuf();
  return all.str();
}

std::string unique_path() {
  std::string path = (std::filesystem::temp_directory_path() / "retrace_cli_XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder");
  return path;
}

// In the child, which only calls what is safe after a fork.
[[noreturn]] void become(std::vector<char*>& arguments, const std::string& out, const std::string& err) {
  const int out_file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int err_file = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(out_file, STDOUT_FILENO);
  ::dup2(err_file, STDERR_FILENO);
  ::execv(arguments.front(), arguments.data());
  ::_exit(127);
}

}  // namespace

Ran retrace(const std::vector<std::string>& arguments) {
  const std::filesystem::path folder = unique_path();
  const std::string out = (folder / "out").string(), err = (folder / "err").string();
  std::vector<std::string> all{RETRACE_COMMAND};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& argument : all) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) become(pointers, out, err);
  int status = 0;
  ::waitpid(child, &status, 0);
  Ran ran{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), whole(out), whole(err)};
  std::filesystem::remove_all(folder);
  return ran;
}

void expect_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& words, int code) {
  std::string command;
  for (const std::string& argument : arguments) command += " " + argument;
  const Ran ran = retrace(arguments);
  EXPECT_EQ(ran.code, code) << command << "\n" << ran.err;
  EXPECT_EQ(ran.out, "") << command;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << command << "\n" << ran.err;
  EXPECT_TRUE(ran.err.starts_with("retrace: ")) << command << "\n" << ran.err;
  for (const std::string& word : words) EXPECT_NE(ran.err.find(word), std::string::npos) << word << " in: " << ran.err;
}

Folder::Folder() : folder_(unique_path()) {}

Folder::~Folder() { std::filesystem::remove_all(folder_); }

void Folder::write(const std::string& name, const std::string& content) const {
  std::ofstream(folder_ / name, std::ios::binary) << content;
}

std::string Folder::read(const std::string& name) const { return whole(path(name)); }

std::vector<std::string> Folder::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

const std::string& Folder::hand_tape() {
  if (hand_tape_.empty()) {
    hand_tape_ = path("hand.tape");
    plan::save(report::make_hand_net().graph, hand_tape_);
  }
  return hand_tape_;
}

}  // namespace retrace::test::cli
