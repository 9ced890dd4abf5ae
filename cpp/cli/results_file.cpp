#include "cli/results_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace specdec::cli {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& name, const char* what) {
  throw Error(name + " " + what + ": " + std::generic_category().message(errno));
}

std::string part_of(const std::string& path) { return path + ".part"; }

}  // namespace

Json ResultsFile::earlier_run(const std::string& path) {
  std::ifstream file(part_of(path), std::ios::binary);
  std::string line;
  if (!file || !std::getline(file, line) || file.eof()) return nullptr;  // the first line is incomplete
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) throw Error(part_of(path) + " was not written by an interrupted run; delete it to start again");
  return json;
}

ResultsFile::ResultsFile(std::string path, const Json& begun_with) : path_(std::move(path)), part_(part_of(path_)) {
  const int descriptor = open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) fail(part_, "cannot be opened");
  file_.reset(fdopen(descriptor, "r+b"));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) throw Error(part_ + " is being written by another run");
  if (earlier_run(path_).is_null()) begin_anew(begun_with);
  else read_earlier(begun_with);
}

void ResultsFile::begin_anew(const Json& begun_with) {
  end_ = 0;
  cut();
  append(begun_with.dump() + "\n");
}

// Removes an incomplete last line.
void ResultsFile::cut() {
  if (std::fseek(file_.get(), end_, SEEK_SET) != 0 || ftruncate(fileno(file_.get()), end_) != 0) fail(part_, "cannot be shortened");
}

// Syncs to disk, which takes milliseconds; a generation takes seconds.
void ResultsFile::append(const std::string& line) {
  const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size();
  if (!written || std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) fail(part_, "cannot be written");
  end_ += static_cast<long>(line.size());
}

void ResultsFile::read_earlier(const Json& begun_with) {
  std::string line;
  char chunk[1 << 16];
  bool is_first = true, is_other = false;
  while (const std::size_t count = std::fread(chunk, 1, sizeof chunk, file_.get())) {
    for (std::size_t i = 0; i < count; ++i) {
      line += chunk[i];
      if (chunk[i] != '\n') continue;
      const Json json = Json::parse(line, nullptr, false);
      if (is_first) {
        is_other = json != begun_with;
      } else if (is_other) {
        throw Error(part_ +
                    " was written by a run with other prompts, models or options. Delete it, or give the same ones to finish that run");
      } else if (!json.is_object() || !json.contains("index") || !json["index"].is_number_integer()) {
        throw Error(part_ + " is damaged at byte " + std::to_string(end_) + "; delete it to start again");
      } else {
        remember(json, {end_, line.size()});
      }
      is_first = false;
      end_ += static_cast<long>(line.size());
      line.clear();
    }
  }
  if (std::ferror(file_.get()) != 0) fail(part_, "cannot be read");
  if (is_other) begin_anew(begun_with);  // the other run left no results
  else cut();
}

void ResultsFile::add(const Json& result) {
  const std::string line = result.dump() + "\n";
  const Place place{end_, line.size()};
  append(line);
  remember(result, place);
}

void ResultsFile::remember(const Json& result, Place place) {
  places_[result["index"].get<std::int64_t>()] = place;
  if (result.contains("error")) ++num_failed_;
}

void ResultsFile::finish() {
  const std::string sorted = path_ + ".sorted";
  std::unique_ptr<std::FILE, Close> file(std::fopen(sorted.c_str(), "wb"));
  if (!file) fail(sorted, "cannot be opened");
  std::string line;
  for (const auto& [index, place] : places_) {
    line.resize(place.size);
    if (std::fseek(file_.get(), place.begin, SEEK_SET) != 0 || std::fread(line.data(), 1, line.size(), file_.get()) != line.size()) {
      fail(part_, "cannot be read");
    }
    if (std::fwrite(line.data(), 1, line.size(), file.get()) != line.size()) fail(sorted, "cannot be written");
  }
  if (std::fflush(file.get()) != 0 || fsync(fileno(file.get())) != 0) fail(sorted, "cannot be written");
  if (std::rename(sorted.c_str(), path_.c_str()) != 0) fail(path_, "cannot be written");
  const std::string folder = std::filesystem::absolute(path_).parent_path().string();
  if (const int descriptor = open(folder.c_str(), O_RDONLY | O_CLOEXEC);
      descriptor >= 0) {  // syncs the new name before the .part file is removed
    fsync(descriptor);
    close(descriptor);
  }
  std::remove(part_.c_str());
}

}  // namespace specdec::cli
