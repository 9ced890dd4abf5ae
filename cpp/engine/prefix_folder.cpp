#include "engine/prefix_folder.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "gguf/fingerprint.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

constexpr const char* extension = ".prefix";

std::string hash_of(const void* data, std::size_t bytes) {
  Fingerprint hash;
  hash.add(data, bytes);
  return hash.text();
}

}  // namespace

PrefixFolder::PrefixFolder(std::string folder, std::uint64_t most_bytes, std::string target_key, std::string draft_key,
                           Note note)
    : folder_(std::move(folder), most_bytes, extension),
      target_key_(std::move(target_key)),
      draft_key_(std::move(draft_key)),
      key_hash_(hash_of((target_key_ + "\n" + draft_key_).data(), target_key_.size() + 1 + draft_key_.size())),
      note_(std::move(note)) {
  try {
    writer_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    throw Error("cannot start a thread that writes prompts to " + folder_.path() +
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

std::string PrefixFolder::name_of(const Text& text) const {
  Fingerprint hash;
  hash.add(text.tokens.data(), text.tokens.size() * sizeof(Token));
  for (const Picture& picture : text.pictures) hash.add(picture.key.data(), picture.key.size());
  return key_hash_ + "-" + hash.text() + extension;
}

const std::map<std::string, Text>& PrefixFolder::prefixes() {
  std::set<std::string> names;
  for (const BoundedFolder::File& file : folder_.files()) {
    const std::string name = file.path.filename().string();
    if (name.rfind(key_hash_ + "-", 0) == 0) names.insert(name);
  }
  for (auto known = prefixes_.begin(); known != prefixes_.end();)
    known = names.count(known->first) > 0 ? std::next(known) : prefixes_.erase(known);
  for (const std::string& name : names) {
    if (prefixes_.count(name) > 0) continue;
    try {
      prefixes_[name] = read_prefix_text(folder_.path_of(name).string(), target_key_, draft_key_);
    } catch (const UnusableFile&) {
      prefixes_[name] = {};
    } catch (const Error&) {  // read again at the next call
    }
  }
  return prefixes_;
}

std::optional<PrefixFile> PrefixFolder::read(const std::string& name) {
  const std::string path = folder_.path_of(name).string();
  std::error_code ignored;
  try {
    PrefixFile prefix = read_prefix_file(path);
    if (prefix.target_key != target_key_ || prefix.draft_key != draft_key_)
      throw UnusableFile(path + ": is for another model");
    folder_.mark_used(name);
    return prefix;
  } catch (const UnusableFile& error) {
    tell("a kept prompt is read again: ", error);
    folder_.remove(name);
  } catch (const Error& error) {  // it may be readable later
    if (fs::exists(path, ignored)) tell("a kept prompt is read again: ", error);
  }
  return std::nullopt;
}

void PrefixFolder::tell(const char* what, const std::exception& error) const noexcept {
  try {
    note_(std::string(what) + error.what());
  } catch (...) {  // no memory for the note
  }
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
      tell("a prompt is not kept: ", error);
    }
    lock.lock();
  }
}

void PrefixFolder::write_now(const PrefixFile& prefix) {
  const std::string name = name_of(prefix.text);
  std::error_code ignored;
  if (fs::exists(folder_.path_of(name), ignored)) return;
  std::vector<std::string> older;
  for (const BoundedFolder::File& file : folder_.files()) {
    const std::string other = file.path.filename().string();
    if (other.rfind(key_hash_ + "-", 0) != 0) continue;
    try {
      if (begins_with(prefix.text, read_prefix_text(file.path.string(), target_key_, draft_key_)))
        older.push_back(other);
    } catch (const Error&) {  // what cannot be read is not known to be a prefix
    }
  }
  const std::uint64_t bytes =
      prefix.target_state.size() + prefix.draft_state.size() + prefix.text.tokens.size() * sizeof(Token);
  if (!folder_.make_room(bytes)) return;
  write_prefix_file(folder_.path_of(name).string(), prefix);
  for (const std::string& other : older) folder_.remove(other);
}

}  // namespace specdec
