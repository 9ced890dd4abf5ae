// Results of many prompts: each is saved when it is finished, and all are sorted at the end.
//
// They are written to "<path>.part", one line each. When all are there, the file is renamed to `path`, so `path` is
// never incomplete, and an interrupted run can be resumed. Only one run at a time.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "platform/file.h"

namespace specdec::cli {

class ResultsFile {
 public:
  // The first line (begun_with) of an interrupted run that left results; null if there is none. Throws Error.
  static nlohmann::ordered_json earlier_run(const std::string& path);

  // begun_with: all that the results depend on. Complete results of an earlier run with an equal begun_with are kept;
  // results of another run are an error. Throws Error.
  ResultsFile(std::string path, const nlohmann::ordered_json& begun_with);

  bool has(std::int64_t index) const { return places_.count(index) != 0; }
  std::size_t size() const { return places_.size(); }
  std::size_t num_failed() const { return num_failed_; }  // results with an "error"

  // result: must have an "index". Throws Error if it cannot be written.
  void add(const nlohmann::ordered_json& result);

  // Writes all results in the order of their indices under the final name.
  void finish();

 private:
  struct Place {
    std::uint64_t begin;
    std::size_t size;
  };
  static nlohmann::ordered_json first_line(const File& file, const std::string& name);
  void read_earlier(const nlohmann::ordered_json& begun_with);
  void append(const std::string& line);
  void begin_anew(const nlohmann::ordered_json& begun_with);
  void cut();
  void remember(const nlohmann::ordered_json& result, Place place);

  std::string path_, part_;
  File file_;
  std::map<std::int64_t, Place> places_;  // of lines in the file, by index
  std::uint64_t end_ = 0;                 // of the last whole line
  std::size_t num_failed_ = 0;
};

}  // namespace specdec::cli
