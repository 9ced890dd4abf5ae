#include "engine/prefix_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/error.h"
#include "gguf/fingerprint.h"
#include "platform/file.h"
#include "platform/process.h"

namespace specdec {
namespace {

constexpr char magic[] = "SDPREFIX";
constexpr std::size_t magic_bytes = sizeof magic - 1, hash_bytes = 16;
constexpr std::uint32_t version = 1;

// Appends to a file and hashes what it appends.
class Writer {
 public:
  explicit Writer(File& file) : file_(file) {}

  void bytes(const void* from, std::size_t count) {
    file_.write(offset_, from, count);
    hash_.add(from, count);
    offset_ += count;
  }
  void field(const void* from, std::size_t count) {
    const std::uint64_t length = count;
    bytes(&length, sizeof length);
    bytes(from, count);
  }
  void field(const std::string& text) { field(text.data(), text.size()); }
  void finish() {
    const std::string hash = hash_.text();
    file_.write(offset_, hash.data(), hash.size());
  }

 private:
  File& file_;
  Fingerprint hash_;
  std::uint64_t offset_ = 0;
};

// Takes fields from the content of a file.
class Reader {
 public:
  Reader(const std::string& path, const std::string& content, std::size_t at) : path_(path), content_(content), at_(at) {}

  std::string field() {
    std::uint64_t length = 0;
    if (left() < sizeof length) fail();
    std::memcpy(&length, content_.data() + at_, sizeof length);
    at_ += sizeof length;
    if (left() < length) fail();
    std::string bytes = content_.substr(at_, static_cast<std::size_t>(length));
    at_ += static_cast<std::size_t>(length);
    return bytes;
  }
  [[noreturn]] void fail() const { throw UnusablePrefix(path_ + ": is damaged"); }
  std::size_t left() const { return content_.size() - hash_bytes - at_; }

 private:
  const std::string& path_;
  const std::string& content_;
  std::size_t at_;
};

void write(File& file, const PrefixFile& prefix) {
  Writer writer(file);
  writer.bytes(magic, magic_bytes);
  writer.bytes(&version, sizeof version);
  writer.field(prefix.target_key);
  writer.field(prefix.draft_key);
  writer.field(prefix.tokens.data(), prefix.tokens.size() * sizeof(Token));
  writer.field(prefix.target_state);
  writer.field(&prefix.num_draft_tokens, sizeof prefix.num_draft_tokens);
  writer.field(prefix.draft_state);
  writer.finish();
  file.sync();
  file.close();
}

std::string content_of(const std::string& path) {
  const File file = File::open(path);
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::string content;
  try {
    content.resize(error ? 0 : static_cast<std::size_t>(size));
  } catch (const std::exception&) {
    throw UnusablePrefix(path + ": is larger than the memory");
  }
  file.read(0, content.data(), content.size());
  return content;
}

}  // namespace

void write_prefix_file(const std::string& path, const PrefixFile& prefix) {
  const std::string temporary = path + ".part" + std::to_string(process_id());
  File file = File::create(temporary);
  try {
    write(file, prefix);
    replace_file(temporary, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

PrefixFile read_prefix_file(const std::string& path) {
  const std::string content = content_of(path);
  std::uint32_t found = 0;
  const std::size_t start = magic_bytes + sizeof found;
  if (content.size() < start + hash_bytes || content.compare(0, magic_bytes, magic) != 0)
    throw UnusablePrefix(path + ": is not a prompt cache");
  std::memcpy(&found, content.data() + magic_bytes, sizeof found);
  if (found != version) throw UnusablePrefix(path + ": was written by another version of specdec");
  Fingerprint hash;
  hash.add(content.data(), content.size() - hash_bytes);
  if (content.compare(content.size() - hash_bytes, hash_bytes, hash.text()) != 0) throw UnusablePrefix(path + ": is damaged");

  Reader reader(path, content, start);
  PrefixFile prefix;
  prefix.target_key = reader.field();
  prefix.draft_key = reader.field();
  const std::string tokens = reader.field();
  prefix.tokens.resize(tokens.size() / sizeof(Token));
  std::memcpy(prefix.tokens.data(), tokens.data(), prefix.tokens.size() * sizeof(Token));
  prefix.target_state = reader.field();
  const std::string count = reader.field();
  if (count.size() != sizeof prefix.num_draft_tokens || tokens.size() % sizeof(Token) != 0) reader.fail();
  std::memcpy(&prefix.num_draft_tokens, count.data(), count.size());
  prefix.draft_state = reader.field();
  if (reader.left() != 0 || prefix.num_draft_tokens > prefix.tokens.size()) reader.fail();
  return prefix;
}

}  // namespace specdec
