#include "cli/results_file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "platform/output_file.h"

namespace specdec::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string part_of(const std::string& path) { return path + ".part"; }

}  // namespace

Json ResultsFile::earlier_run(const std::string& path) {
  const std::string part = part_of(path);
  std::error_code error;
  if (!std::filesystem::exists(part, error) && !error) return nullptr;
  return first_line(File::open(part), part);
}

// JSON null if the line is incomplete. An unreadable line is an error instead, because after null the file would be
// started again.
Json ResultsFile::first_line(const File& file, const std::string& name) {
  std::string line;
  char chunk[1 << 12];
  while (const std::size_t count = file.read_some(line.size(), chunk, sizeof chunk)) {
    const char* const end = std::find(chunk, chunk + count, '\n');
    line.append(static_cast<const char*>(chunk), end);
    if (end == chunk + count) continue;
    Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) throw Error(name + " was not written by an interrupted run; delete it to start again");
    return json;
  }
  return nullptr;
}

ResultsFile::ResultsFile(std::string path, const Json& begun_with)
    : path_(std::move(path)), part_(part_of(path_)), file_(File::open_or_create(part_)) {
  if (!file_.try_lock()) throw Error(part_ + " is being written by another run");
  if (first_line(file_, part_).is_null()) begin_anew(begun_with);
  else read_earlier(begun_with);
}

void ResultsFile::begin_anew(const Json& begun_with) {
  end_ = 0;
  cut();
  append(begun_with.dump() + "\n");
}

// Removes an incomplete last line.
void ResultsFile::cut() { file_.resize(end_); }

// Syncs to disk, which takes milliseconds; a generation takes seconds.
void ResultsFile::append(const std::string& line) {
  file_.write(end_, line.data(), line.size());
  file_.sync();
  end_ += line.size();
}

void ResultsFile::read_earlier(const Json& begun_with) {
  std::string line;
  char chunk[1 << 16];
  bool is_first = true, is_other = false;
  std::uint64_t offset = 0;
  while (const std::size_t count = file_.read_some(offset, chunk, sizeof chunk)) {
    offset += count;
    for (std::size_t i = 0; i < count; ++i) {
      line += chunk[i];
      if (chunk[i] != '\n') continue;
      const Json json = Json::parse(line, nullptr, false);
      if (is_first) {
        is_other = json != begun_with;
      } else if (is_other) {
        throw Error(part_ +
                    " was written by a run with other prompts, models or options. Delete it, or give the same ones to "
                    "finish that run");
      } else if (!json.is_object() || !json.contains("index") || !json["index"].is_number_integer()) {
        throw Error(part_ + " is damaged at byte " + std::to_string(end_) + "; delete it to start again");
      } else {
        remember(json, {end_, line.size()});
      }
      is_first = false;
      end_ += line.size();
      line.clear();
    }
  }
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
  if (result.contains("error") && !result["error"].is_null()) ++num_failed_;
}

void ResultsFile::finish() {
  OutputFile sorted(path_, true, "");
  std::string line;
  std::uint64_t end = 0;
  for (const auto& [index, place] : places_) {
    line.resize(place.size);
    file_.read(place.begin, line.data(), line.size());
    sorted.file().write(end, line.data(), line.size());
    end += line.size();
  }
  sorted.file().sync();
  sorted.publish();
  sync_folder_of(path_);  // the new name, before the .part file is removed
  file_.close();
  std::error_code error;
  std::filesystem::remove(part_, error);
}

}  // namespace specdec::cli
