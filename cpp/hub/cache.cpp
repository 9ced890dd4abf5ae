#include "hub/cache.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "platform/file.h"
#include "platform/output_file.h"
#include "platform/process.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path with_home(const std::string& path) {
  if (path == "~" || path.compare(0, 2, "~/") == 0) return environment("HOME") + path.substr(1);
  return path;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
  return line;
}

bool is_hexadecimal(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char digit) { return std::isxdigit(static_cast<unsigned char>(digit)) != 0; });
}

[[noreturn]] void fail(const fs::path& path, const std::string& what, const std::error_code& error) {
  throw Error(path.string() + ": " + what + ": " + error.message() +
              "; check its permissions, or set HF_HOME to another folder");
}

std::string folder_name(const std::string& repository) {
  std::string name = "models--" + repository;
  const std::size_t slash = name.find('/');
  return name.replace(slash, 1, "--");
}

}  // namespace

fs::path hub_home() {
  if (const std::string given = environment("HF_HOME"); !given.empty()) return with_home(given);
  if (const std::string given = environment("XDG_CACHE_HOME"); !given.empty()) return with_home(given) / "huggingface";
  return with_home("~/.cache") / "huggingface";
}

fs::path hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string given = environment(name); !given.empty()) return with_home(given);
  }
  return hub_home() / "hub";
}

std::string hub_endpoint() {
  std::string endpoint = environment("HF_ENDPOINT");
  while (!endpoint.empty() && endpoint.back() == '/') endpoint.pop_back();
  return endpoint.empty() ? "https://huggingface.co" : endpoint;
}

std::string hub_token() {
  std::string token = environment("HF_TOKEN");
  if (token.empty()) token = environment("HUGGING_FACE_HUB_TOKEN");
  if (token.empty()) {
    const std::string path = environment("HF_TOKEN_PATH");
    token = first_line(path.empty() ? hub_home() / "token" : with_home(path));
  }
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back())) != 0) token.pop_back();
  const bool is_printable =
      std::all_of(token.begin(), token.end(), [](char letter) { return letter > ' ' && letter < '\x7f'; });
  if (!is_printable) throw Error("HF_TOKEN contains blanks or control characters; check it");
  return token;
}

bool is_hub_offline() {
  std::string value = environment("HF_HUB_OFFLINE");
  for (char& letter : value) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

CachedRepository::CachedRepository(const std::string& repository)
    : root_(hub_cache()), folder_(root_ / folder_name(repository)) {}

fs::path CachedRepository::lock(const std::string& etag) const {
  return root_ / ".locks" / folder_.filename() / (etag + ".lock");
}

std::optional<std::string> CachedRepository::main_commit() const {
  const std::string commit = first_line(folder_ / "refs" / "main");
  return is_commit(commit) ? std::optional<std::string>(commit) : std::nullopt;
}

std::vector<std::string> CachedRepository::paths(const std::string& commit) const {
  std::vector<std::string> paths;
  std::error_code error;
  const fs::path root = snapshot(commit);
  for (fs::recursive_directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (fs::is_regular_file(entry->path(), ignored))
      paths.push_back(entry->path().lexically_relative(root).generic_string());
  }
  return paths;
}

void CachedRepository::make_folder_of(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) fail(path.parent_path(), "cannot be created", error);
}

void CachedRepository::set_main_commit(const std::string& commit) const {
  if (main_commit() == commit) return;
  const fs::path path = folder_ / "refs" / "main";
  make_folder_of(path);
  OutputFile output(path.string(), true, "");
  output.file().write(0, commit.data(), commit.size());
  output.publish();
}

void CachedRepository::link(const std::string& commit, const std::string& path, const std::string& etag) const {
  const fs::path place = snapshot(commit) / path;
  make_folder_of(place);
  const fs::path temporary = place.string() + "." + std::to_string(process_id());
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_symlink(blob(etag).lexically_relative(place.parent_path()), temporary, error);
  if (error) fail(place, "cannot be linked", error);
  replace_file(temporary.string(), place.string());
}

bool is_commit(const std::string& text) { return text.size() == 40 && is_hexadecimal(text); }
bool is_etag(const std::string& text) { return (text.size() == 40 || text.size() == 64) && is_hexadecimal(text); }

}  // namespace specdec
