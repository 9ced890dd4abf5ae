// Results of many prompts, kept one by one as they come and put in order at the end.
//
// They are written to "<path>.part", a line each, which becomes `path` when all are there: `path` is never half-written, and a run
// that was cut short goes on where it stopped. One run at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace specdec::cli {

class ResultsFile {
 public:
  // What an earlier run that was cut short and left results began with; null if there was none. Throws Error.
  static nlohmann::ordered_json earlier_run(const std::string& path);

  // begun_with: what the results depend on. Results of an earlier run that began with the same are kept, but for a line cut short;
  // others are an error. Throws Error.
  ResultsFile(std::string path, const nlohmann::ordered_json& begun_with);

  bool has(std::int64_t index) const { return places_.count(index) != 0; }
  std::size_t size() const { return places_.size(); }
  std::size_t num_failed() const { return num_failed_; }  // with an "error"

  // result: has "index". Throws Error when it cannot be written.
  void add(const nlohmann::ordered_json& result);

  // Puts all results in order of their indices under the final name.
  void finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct Place {
    long begin;
    std::size_t size;
  };
  void read_earlier(const nlohmann::ordered_json& begun_with);
  void append(const std::string& line);
  void begin_anew(const nlohmann::ordered_json& begun_with);
  void cut();
  void remember(const nlohmann::ordered_json& result, Place place);

  std::string path_, part_;
  std::unique_ptr<std::FILE, Close> file_;
  std::map<std::int64_t, Place> places_;  // of lines in the file, by index
  long end_ = 0;
  std::size_t num_failed_ = 0;
};

}  // namespace specdec::cli
