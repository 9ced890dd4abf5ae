#include "engine/text_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/utf8.h"
#include "platform/file.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().rfind('.', 0) == 0; }

// Appends the folder's files; a folder that cannot be read counts as empty.
void add_files(const fs::path& folder, std::vector<fs::path>& files) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (is_hidden(at->path()) || at->is_symlink(ignored)) continue;
    if (at->is_directory(ignored)) add_files(at->path(), files);
    else if (at->is_regular_file(ignored)) files.push_back(at->path());
  }
}

std::size_t count_characters(const std::string& text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins));
}

std::size_t count_replaced(const std::string& text) {
  constexpr char replacement[] = "\xEF\xBF\xBD";
  std::size_t count = 0;
  for (std::size_t at = text.find(replacement); at != std::string::npos; at = text.find(replacement, at + 3)) ++count;
  return count;
}

}  // namespace

std::vector<std::string> files_below(const std::string& folder) {
  std::error_code error;
  const fs::directory_iterator readable(folder, error);
  if (error) throw Error(folder + ": cannot be read: " + error.message());
  std::vector<fs::path> files;
  add_files(folder, files);
  std::sort(files.begin(), files.end());
  std::vector<std::string> paths;
  for (const fs::path& file : files) paths.push_back(file.string());
  return paths;
}

std::optional<std::string> text_of_file(const std::string& path) {
  const File file = File::open(path);
  std::string bytes(largest_text_file, '\0');
  std::size_t size = 0;
  while (const std::size_t count = size < bytes.size() ? file.read_some(size, &bytes[size], bytes.size() - size) : 0)
    size += count;
  const bool is_cut = size == bytes.size();
  bytes.resize(size);
  if (bytes.find('\0') != std::string::npos) return std::nullopt;
  std::string text;
  decode_utf8(bytes, text);
  if (!is_cut && !bytes.empty()) text += valid_utf8(bytes);  // otherwise a character that the limit cuts
  if (count_replaced(text) > count_characters(text) / 100) return std::nullopt;
  return text;
}

}  // namespace specdec
