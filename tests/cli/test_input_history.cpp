// History between runs.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "cli/terminal/input_history.h"

using namespace specdec::cli;
namespace fs = std::filesystem;
using Entries = std::vector<std::string>;

namespace {

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("specdec-history-" + std::to_string(getpid()))) {
    fs::remove_all(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

Entries lines_of(const std::string& path) {
  std::ifstream file(path);
  Entries lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST(entries_are_there_in_the_next_run) {
  const Folder folder;
  const std::string path = folder / "state/chat.jsonl";
  InputHistory first(path);
  for (const char* text : {"one", "one", "  \n", "two\nlines \"quoted\"", "\xC3\xBC"}) first.add(text);
  const Entries expected = {"one", "two\nlines \"quoted\"", "\xC3\xBC"};
  CHECK(first.entries() == expected);
  CHECK(InputHistory(path).entries() == expected);
  CHECK((fs::status(fs::path(path).parent_path()).permissions() & fs::perms::all) == fs::perms::owner_all);
}

TEST(lines_of_another_kind_are_ignored_and_kept) {
  const Folder folder;
  fs::create_directories(folder / "");
  const std::string path = folder / "chat.jsonl";
  std::ofstream(path) << "\"a\"\nnot json\n{\"b\": 1}\n\"c\"\n";
  InputHistory history(path);
  CHECK((history.entries() == Entries{"a", "c"}));
  history.add("d");
  CHECK((InputHistory(path).entries() == Entries{"a", "c", "d"}));
}

TEST(the_latest_thousand) {
  const Folder folder;
  const std::string path = folder / "chat.jsonl";
  InputHistory history(path);
  for (int i = 0; i < 1010; ++i) history.add(std::to_string(i));
  const Entries entries = InputHistory(path).entries();
  CHECK(entries.size() == 1000 && entries.front() == "10" && entries.back() == "1009");
}

TEST(the_file_does_not_grow_without_end) {
  const Folder folder;
  const std::string path = folder / "chat.jsonl";
  for (int run = 0; run < 3; ++run) {
    InputHistory history(path);
    for (int i = 0; i < 600; ++i) history.add(std::to_string(1000 * run + i));
  }
  (void)InputHistory(path);
  const Entries lines = lines_of(path);
  CHECK(lines.size() == 1000 && lines.front() == "\"1200\"" && lines.back() == "\"2599\"");
  CHECK((fs::status(path).permissions() & (fs::perms::group_all | fs::perms::others_all)) == fs::perms::none);
  CHECK(!fs::exists(path + ".part"));
}

TEST(a_history_that_is_a_link_stays_one) {
  const Folder folder;
  fs::create_directories(folder / "elsewhere");
  const std::string path = folder / "chat.jsonl", file = folder / "elsewhere/chat.jsonl";
  {
    std::ofstream lines(file);
    for (int i = 0; i < 1001; ++i) lines << i << "\n";
  }
  fs::create_symlink(file, path);
  CHECK(InputHistory(path).entries().empty());
  CHECK(fs::is_symlink(path) && lines_of(file).size() == 1000);
}

TEST(a_very_long_text_is_for_this_run) {
  const Folder folder;
  const std::string path = folder / "chat.jsonl", text(100'000, 'x');
  InputHistory history(path);
  history.add("one");
  history.add(text);
  CHECK((history.entries() == Entries{"one", text}));
  CHECK((InputHistory(path).entries() == Entries{"one"}));
}

TEST(without_a_file) {
  InputHistory history;
  history.add("one");
  CHECK((history.entries() == Entries{"one"}));
  const Folder folder;
  fs::create_directories(folder / "taken");
  InputHistory failing(folder / "taken");  // a folder
  CHECK_THROWS(failing.add("one"), specdec::Error, "taken: the history cannot be written");
  CHECK((failing.entries() == Entries{"one"}));
}

TEST(where_it_is) {
  setenv("XDG_STATE_HOME", "/state", 1);
  CHECK(history_path("chat.jsonl") == "/state/specdec/chat.jsonl");
  setenv("XDG_STATE_HOME", "relative", 1);
  setenv("HOME", "/home/x", 1);
  CHECK(history_path("chat.jsonl") == "/home/x/.local/state/specdec/chat.jsonl");
  unsetenv("HOME");
  CHECK(history_path("chat.jsonl").empty());
}

TEST_MAIN()
