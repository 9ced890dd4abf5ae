#include "engine/prefix_folder.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "gguf/fingerprint.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr const char* extension = ".prefix";
constexpr std::chrono::hours abandoned_after(1);  // a temporary file of a process that died

std::string hash_of(const void* data, std::size_t bytes) {
  Fingerprint hash;
  hash.add(data, bytes);
  return hash.text();
}

bool begins_with(const std::vector<Token>& tokens, const std::vector<Token>& prefix) {
  return prefix.size() <= tokens.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
}

bool is_temporary(const fs::path& path) {
  return path.extension().string().rfind(".part", 0) == 0 && path.stem().extension() == extension;
}

struct FoundFile {
  fs::path path;
  fs::file_time_type used;
  std::uint64_t bytes;
};

// Files that another process removes meanwhile are left out.
std::vector<FoundFile> files_in(const std::string& folder) {
  std::vector<FoundFile> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code failure;
    FoundFile file{at->path(), fs::last_write_time(at->path(), failure), 0};
    if (!failure) file.bytes = fs::file_size(at->path(), failure);
    if (!failure) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

PrefixFolder::PrefixFolder(std::string folder, std::uint64_t most_bytes, std::string target_key, std::string draft_key,
                           Note note)
    : folder_(std::move(folder)),
      most_bytes_(most_bytes),
      target_key_(std::move(target_key)),
      draft_key_(std::move(draft_key)),
      key_hash_(hash_of((target_key_ + "\n" + draft_key_).data(), target_key_.size() + 1 + draft_key_.size())),
      note_(std::move(note)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw Error(folder_ + ": cannot be made a folder for prompts: " + error.message());
  for (const FoundFile& file : files_in(folder_)) {
    if (is_temporary(file.path) && fs::file_time_type::clock::now() - file.used > abandoned_after)
      fs::remove(file.path, error);
  }
  try {
    writer_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    throw Error("cannot start a thread that writes prompts to " + folder_ +
                ": the system has a limit; raise it (ulimit -u)");
  }
}

PrefixFolder::~PrefixFolder() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

std::string PrefixFolder::name_of(const std::vector<Token>& tokens) const {
  return key_hash_ + "-" + hash_of(tokens.data(), tokens.size() * sizeof(Token)) + extension;
}

const std::map<std::string, std::vector<Token>>& PrefixFolder::prefixes() {
  std::map<std::string, std::vector<Token>> found;
  for (const FoundFile& file : files_in(folder_)) {
    const std::string name = file.path.filename().string();
    if (name.rfind(key_hash_ + "-", 0) != 0 || file.path.extension() != extension) continue;
    const auto known = prefixes_.find(name);
    found[name] = known != prefixes_.end() ? std::move(known->second)
                                           : read_prefix_tokens(file.path.string(), target_key_, draft_key_);
  }
  prefixes_ = std::move(found);
  return prefixes_;
}

std::optional<PrefixFile> PrefixFolder::read(const std::string& name) {
  const std::string path = path_of(name).string();
  std::error_code ignored;
  try {
    PrefixFile prefix = read_prefix_file(path);
    if (prefix.target_key != target_key_ || prefix.draft_key != draft_key_)
      throw UnusableFile(path + ": is of another model");
    fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
    return prefix;
  } catch (const Error& error) {
    if (!fs::exists(path, ignored)) return std::nullopt;
    note_(std::string("a kept prompt is read again: ") + error.what());
    fs::remove(path, ignored);
  }
  return std::nullopt;
}

void PrefixFolder::write(PrefixFile prefix) {
  prefix.target_key = target_key_;
  prefix.draft_key = draft_key_;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(std::move(prefix));
  }
  changed_.notify_all();
}

bool PrefixFolder::has_waiting() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return is_writing_ || !waiting_.empty();
}

void PrefixFolder::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    is_writing_ = false;
    changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const PrefixFile prefix = std::move(waiting_.front());
    waiting_.pop_front();
    is_writing_ = true;
    lock.unlock();
    try {
      write_now(prefix);
    } catch (const std::exception& error) {  // no room, no memory
      note_(std::string("a prompt is not kept: ") + error.what());
    }
    lock.lock();
  }
}

void PrefixFolder::write_now(const PrefixFile& prefix) {
  const std::string name = name_of(prefix.tokens);
  std::error_code ignored;
  if (fs::exists(path_of(name), ignored)) return;
  std::vector<std::string> older;
  for (const FoundFile& file : files_in(folder_)) {
    const std::string other = file.path.filename().string();
    if (other.rfind(key_hash_ + "-", 0) != 0 || file.path.extension() != extension) continue;
    if (begins_with(prefix.tokens, read_prefix_tokens(file.path.string(), target_key_, draft_key_)))
      older.push_back(other);
  }
  const std::uint64_t bytes =
      prefix.target_state.size() + prefix.draft_state.size() + prefix.tokens.size() * sizeof(Token);
  if (!make_room(bytes)) return;
  write_prefix_file(path_of(name).string(), prefix);
  for (const std::string& other : older) fs::remove(path_of(other), ignored);
}

// Returns false if it is larger than all of the room.
bool PrefixFolder::make_room(std::uint64_t bytes) {
  if (bytes > most_bytes_) return false;
  std::vector<FoundFile> files = files_in(folder_);
  files.erase(std::remove_if(files.begin(), files.end(),
                             [](const FoundFile& file) { return file.path.extension() != extension; }),
              files.end());
  std::sort(files.begin(), files.end(), [](const FoundFile& a, const FoundFile& b) { return a.used < b.used; });
  std::uint64_t sum = bytes;
  for (const FoundFile& file : files) sum += file.bytes;
  std::error_code ignored;
  for (auto file = files.begin(); sum > most_bytes_ && file != files.end(); ++file) {
    if (fs::remove(file->path, ignored)) sum -= file->bytes;
  }
  return true;
}

}  // namespace specdec
