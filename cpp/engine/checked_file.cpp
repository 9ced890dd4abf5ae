#include "engine/checked_file.h"

#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include "platform/process.h"

namespace specdec {
namespace {

constexpr std::size_t magic_bytes = 8, hash_bytes = 16;

std::string content_of(const std::string& path) {
  const File file = File::open(path);
  try {
    return file.read_all();
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {  // bad_alloc, length_error
    throw UnusableFile(path + ": is larger than the memory");
  }
}

}  // namespace

CheckedFileWriter::CheckedFileWriter(const std::string& path, const char* magic, std::uint32_t version)
    : path_(path), temporary_(path + ".part" + std::to_string(process_id())), file_(File::create(temporary_.string())) {
  put(magic, magic_bytes);
  put(&version, sizeof version);
}

CheckedFileWriter::~CheckedFileWriter() {
  std::error_code ignored;
  if (!is_finished_) std::filesystem::remove(temporary_, ignored);
}

void CheckedFileWriter::put(const void* from, std::size_t bytes) {
  file_.write(offset_, from, bytes);
  hash_.add(from, bytes);
  offset_ += bytes;
}

void CheckedFileWriter::field(const void* from, std::size_t bytes) {
  const std::uint64_t length = bytes;
  put(&length, sizeof length);
  put(from, bytes);
}

void CheckedFileWriter::finish() {
  const std::string hash = hash_.text();
  file_.write(offset_, hash.data(), hash.size());
  file_.sync();
  file_.close();
  replace_file(temporary_.string(), path_);
  is_finished_ = true;
}

CheckedFileReader::CheckedFileReader(const std::string& path, const char* magic, std::uint32_t version,
                                     const char* what)
    : path_(path), content_(content_of(path)) {
  std::uint32_t found = 0;
  const std::size_t start = magic_bytes + sizeof found;
  if (content_.size() < start + hash_bytes || content_.compare(0, magic_bytes, magic) != 0)
    throw UnusableFile(path + ": is not " + what);
  std::memcpy(&found, content_.data() + magic_bytes, sizeof found);
  if (found != version) throw UnusableFile(path + ": was written by another version of specdec");
  end_ = content_.size() - hash_bytes;
  Fingerprint hash;
  hash.add(content_.data(), end_);
  if (content_.compare(end_, hash_bytes, hash.text()) != 0) fail();
  at_ = start;
}

void CheckedFileReader::fail() const { throw UnusableFile(path_ + ": is damaged"); }

std::size_t CheckedFileReader::next_length() {
  std::uint64_t length = 0;
  take(&length, sizeof length);
  if (end_ - at_ < length) fail();
  return static_cast<std::size_t>(length);
}

void CheckedFileReader::take(void* to, std::size_t bytes) {
  if (end_ - at_ < bytes) fail();
  if (bytes > 0) std::memcpy(to, content_.data() + at_, bytes);
  at_ += bytes;
}

std::string CheckedFileReader::field() {
  const std::size_t bytes = next_length();
  std::string text(content_, at_, bytes);
  at_ += bytes;
  return text;
}

CheckedFileStart::CheckedFileStart(const std::string& path, const char* magic, std::uint32_t version)
    : path_(path), file_(File::open(path)) {
  char start[magic_bytes];
  std::uint32_t found = 0;
  file_.read(0, start, sizeof start);
  file_.read(sizeof start, &found, sizeof found);
  at_ = sizeof start + sizeof found;
  if (std::memcmp(start, magic, sizeof start) != 0 || found != version)
    throw UnusableFile(path + ": is of another kind or version");
}

std::string CheckedFileStart::field(std::size_t most_bytes) {
  std::uint64_t length = 0;
  file_.read(at_, &length, sizeof length);
  if (length > most_bytes) throw UnusableFile(path_ + ": is damaged");
  std::string text(static_cast<std::size_t>(length), '\0');
  file_.read(at_ + sizeof length, text.data(), text.size());
  at_ += sizeof length + length;
  return text;
}

}  // namespace specdec
