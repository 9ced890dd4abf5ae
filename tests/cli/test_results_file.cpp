// The results of many prompts, with a fault in every single system call of the journal: what add() has returned for is
// there when the run is resumed, once, and the finished file is whole.

#include <sys/file.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "cli/results_file.h"
#include "faults.h"

namespace {

using namespace specdec;
using cli::ResultsFile;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr int num_results = 4;
const Json begun_with = {{"prompts", "a fingerprint"}};

std::string text_of(std::int64_t index) { return std::string(20, static_cast<char>('a' + index)); }
Json result_of(std::int64_t index) { return {{"index", index}, {"text", text_of(index)}}; }

// Results 2, 3, 0, 1, unless they are there, then the end. Calls noted(index) for each that was added.
template <class Noted>
void run(const std::string& path, Noted noted) {
  ResultsFile results(path, begun_with);
  for (int i = 0; i < num_results; ++i) {
    const std::int64_t index = (i + 2) % num_results;
    if (results.has(index)) continue;
    results.add(result_of(index));
    noted(index);
  }
  results.finish();
}

std::vector<Json> lines(const std::string& path) {
  std::vector<Json> found;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) found.push_back(Json::parse(line, nullptr, false));
  return found;
}

void check_whole(const std::string& path) {
  const std::vector<Json> found = lines(path);
  CHECK(found.size() == num_results);
  for (int i = 0; i < num_results; ++i) CHECK(found[static_cast<std::size_t>(i)] == result_of(i));
}

struct Folder {
  Folder() : path(fs::temp_directory_path() / ("results-file-" + std::to_string(getpid()))) {
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

constexpr int finished = 0, failed = 1;

// A run in a process of its own, with a fault in call `at`. How it ended, which results it had added, and whether the
// fault occurred.
struct Outcome {
  int status = 0;
  std::set<std::int64_t> added;
  bool was_reached = false;
};
Outcome run_with_fault(const std::string& path, faults::Kind kind, int at, int error) {
  int pipe_ends[2];
  CHECK(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto tell = [&](char what) { (void)!write(pipe_ends[1], &what, 1); };
    int status = finished;
    faults::arm(kind, at, error);
    try {
      run(path, [&](std::int64_t index) { tell(static_cast<char>(index)); });
    } catch (const Error&) {
      status = failed;
    }
    if (faults::calls >= at) tell('!');
    _exit(status);
  }
  close(pipe_ends[1]);
  Outcome outcome;
  for (char told = 0; read(pipe_ends[0], &told, 1) == 1;) {
    if (told == '!') outcome.was_reached = true;
    else outcome.added.insert(told);
  }
  close(pipe_ends[0]);
  waitpid(child, &outcome.status, 0);
  outcome.was_reached |= WIFSIGNALED(outcome.status);
  return outcome;
}

// Faults in every call of a run that begins with `before`, results of an earlier run; each is resumed without faults.
void try_all(const std::vector<std::int64_t>& before, faults::Kind kind, int error, bool must_finish) {
  const Folder folder;
  int at = 1;
  for (;; ++at) {
    const std::string path = (folder.path / ("out-" + std::to_string(at))).string();
    if (!before.empty()) {
      ResultsFile earlier(path, begun_with);
      for (const std::int64_t index : before) earlier.add(result_of(index));
    }
    const Outcome outcome = run_with_fault(path, kind, at, error);
    if (!outcome.was_reached) break;
    const std::string where = "call " + std::to_string(at) + ", error " + std::to_string(error) + ": ";
    for (const std::int64_t index : before) {
      if (outcome.added.count(index) != 0)
        check::fail(__FILE__, __LINE__, where + "result " + std::to_string(index) + " was repeated");
    }
    std::set<std::int64_t> kept(before.begin(), before.end());
    kept.insert(outcome.added.begin(), outcome.added.end());
    const bool has_finished = WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == finished;
    if (must_finish && !has_finished) check::fail(__FILE__, __LINE__, where + "it did not finish");
    if (has_finished || fs::exists(path)) {
      check_whole(path);
      continue;
    }
    run(path, [&](std::int64_t index) {
      if (kept.count(index) != 0)
        check::fail(__FILE__, __LINE__, where + "result " + std::to_string(index) + " was lost");
    });
    check_whole(path);
  }
  CHECK(at > 10);
}

const std::vector<std::int64_t> befores[] = {{}, {3, 1}};

TEST(it_is_killed_before_or_after_any_call) {
  for (const auto& before : befores) {
    try_all(before, faults::Kind::killed, 0, false);
    try_all(before, faults::Kind::killed_after, 0, false);
  }
}

TEST(any_call_fails) {
  for (const auto& before : befores) {
    for (const int error : {ENOSPC, EDQUOT, EIO, EMFILE}) try_all(before, faults::Kind::error, error, false);
  }
}

TEST(half_of_a_line_is_written_and_then_the_disk_is_full) {
  for (const auto& before : befores) try_all(before, faults::Kind::halved_error, ENOSPC, false);
}

TEST(interruptions_and_short_transfers_are_no_errors) {
  for (const auto& before : befores) {
    try_all(before, faults::Kind::error, EINTR, true);
    try_all(before, faults::Kind::halved, 0, true);
  }
}

}  // namespace

TEST_MAIN()
