// Files, policies and paths that cannot be meant: one clear line each, its exit code, nothing half-written.

#include "plan/file/file.h"
#include "process.h"
#include "report/hand_trace.h"

namespace retrace::test::cli {
namespace {

class BadInput : public Folder {
 protected:
  // Each command that reads a tape.
  static std::vector<std::vector<std::string>> commands(const std::string& tape) {
    return {{"explain", tape}, {"plan", tape, "--budget", "90%"}, {"frontier", tape, "--budgets", "0"}};
  }
  static void expect_all_refuse(const std::string& tape, const std::string& words) {
    for (const auto& command : commands(tape)) expect_refused(command, {words});
  }
};

TEST_F(BadInput, AMissingTape) { expect_all_refuse(path("none.tape"), "none.tape"); }

TEST_F(BadInput, AFolderInsteadOfATape) { expect_all_refuse(path("."), "not a regular file"); }

TEST_F(BadInput, AnEmptyFileAndAForeignOne) {
  write("empty.tape", "");
  write("text.tape", "{\"not\": \"a tape\"}\n");
  expect_all_refuse(path("empty.tape"), "empty.tape");
  expect_all_refuse(path("text.tape"), "text.tape");
}

TEST_F(BadInput, ATruncatedADamagedAndANewerTape) {
  const std::string bytes = plan::to_bytes(report::make_hand_net().graph);
  write("short.tape", bytes.substr(0, bytes.size() / 2));
  std::string damaged = bytes;
  damaged[bytes.size() / 2] = static_cast<char>(damaged[bytes.size() / 2] ^ 1);
  write("damaged.tape", damaged);
  std::string newer = bytes;
  newer[8] = 99;  // the version follows the magic
  write("newer.tape", newer);
  expect_all_refuse(path("short.tape"), "short.tape");
  expect_all_refuse(path("damaged.tape"), "damaged.tape");
  expect_all_refuse(path("newer.tape"), "version");
}

TEST_F(BadInput, NoTapeAtAll) {
  expect_refused({"explain"}, {"no tape is named", "retrace trace"});
  expect_refused({"plan", "--budget", "90%"}, {"no tape is named"});
  expect_refused({"frontier"}, {"no tape is named"});
}

TEST_F(BadInput, PoliciesNobodyKnows) {
  for (const char* command : {"explain", "frontier"}) {
    expect_refused({command, hand_tape(), "--policy", "evry:2"}, {"did you mean 'every'?"});
    expect_refused({command, hand_tape(), "--policy", "every:0"}, {"every:2"});
    expect_refused({command, hand_tape(), "--policy", "every:"}, {"every:2"});
    expect_refused({command, hand_tape(), "--policy", "selective:tahn"}, {"tanh"});
    expect_refused({command, hand_tape(), "--policy", "budget:lots"}, {"lots"});
  }
}

TEST_F(BadInput, OutputsThatCannotBeWrittenAreRefusedBeforeTheWork) {
  write("file", "");
  for (const std::string& output : {path("none/x"), path("."), path("file/x")}) {
    expect_refused({"plan", hand_tape(), "--budget", "90%", "-o", output}, {output});
    expect_refused({"frontier", hand_tape(), "-o", output}, {output});
    expect_refused({"trace", "gpt", "-o", output}, {output});
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"file", "hand.tape"}));
}

TEST_F(BadInput, OptionsAndCommandsNobodyKnows) {
  expect_refused({"explain", hand_tape(), "--polcy", "full"}, {"--polcy"});
  expect_refused({"explan", hand_tape()}, {"did you mean 'explain'?"});
  expect_refused({"frontier", hand_tape(), "--budgets", "-1"}, {"--budgets"});
  expect_refused({"explain", hand_tape(), "--rows", "x"}, {"--rows"});
}

TEST_F(BadInput, HelpTellsExitCodes) {
  for (const char* command : {"trace", "explain", "plan", "frontier"}) {
    const Ran ran = retrace({command, "--help"});
    EXPECT_EQ(ran.code, 0);
    EXPECT_NE(ran.out.find("Exit codes: 0"), std::string::npos) << command;
    EXPECT_NE(ran.out.find("Examples:"), std::string::npos) << command;
  }
}

}  // namespace
}  // namespace retrace::test::cli
