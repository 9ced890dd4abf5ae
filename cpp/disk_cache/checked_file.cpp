#include "disk_cache/checked_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

namespace specdec {
namespace {

constexpr std::size_t magic_bytes = 8, hash_bytes = 16;

std::string content_of(const std::string& path) {
  const File file = File::open(path);
  try {
    return file.read_all();
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {  // bad_alloc, length_error; the file itself may be all right
    throw Error(path + ": is larger than the free memory");
  }
}

constexpr std::uint64_t prime = 0x100000001b3u;  // FNV's; odd, so that different words of a lane give different results

}  // namespace

void ContentHash::add_block(const unsigned char* block) {
  for (std::size_t lane = 0; lane < num_lanes; ++lane) {
    std::uint64_t word;
    std::memcpy(&word, block + lane * sizeof word, sizeof word);
    lanes_[lane] = (lanes_[lane] ^ word) * prime;
    lanes_[lane] ^= lanes_[lane] >> 32;  // otherwise the upper bits of a word never reach the lower ones
  }
}

void ContentHash::add(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  num_bytes_ += bytes;
  if (num_rest_ > 0) {
    const std::size_t count = std::min(bytes, block_bytes - num_rest_);
    std::memcpy(rest_.data() + num_rest_, at, count);
    num_rest_ += count;
    at += count;
    bytes -= count;
    if (num_rest_ < block_bytes) return;
    add_block(rest_.data());
    num_rest_ = 0;
  }
  for (; bytes >= block_bytes; bytes -= block_bytes, at += block_bytes) add_block(at);
  if (bytes > 0) std::memcpy(rest_.data(), at, bytes);
  num_rest_ = bytes;
}

std::string ContentHash::text() const {
  ContentHash last = *this;
  std::fill(last.rest_.begin() + static_cast<std::ptrdiff_t>(num_rest_), last.rest_.end(),
            static_cast<unsigned char>(0));
  last.add_block(last.rest_.data());
  std::uint64_t hash = num_bytes_;
  for (const std::uint64_t lane : last.lanes_) hash = (hash ^ lane) * prime;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash ^ (hash >> 32)));
  return text;
}

std::string content_hash(const void* data, std::size_t bytes) {
  ContentHash hash;
  hash.add(data, bytes);
  return hash.text();
}

CheckedFileWriter::CheckedFileWriter(const std::string& path, const char* magic, std::uint32_t version)
    : output_(path, true, "") {
  put(magic, magic_bytes);
  put(&version, sizeof version);
}

void CheckedFileWriter::put(const void* from, std::size_t bytes) {
  output_.file().write(offset_, from, bytes);
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
  output_.file().write(offset_, hash.data(), hash.size());
  output_.file().sync();
  output_.publish();
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
  if (content_.compare(end_, hash_bytes, content_hash(content_.data(), end_)) != 0) fail();
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
