// Fingerprints depend on the headers and on every tensor of every part, not on the files' location.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "check.h"
#include "gguf/fingerprint.h"
#include "gguf/gguf_writer.h"

namespace {

using namespace specdec;
namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("specdec-fingerprint-" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

constexpr std::uint64_t columns = 512, rows = 64, tensor_bytes = columns * rows * 4;

// Writes part `number` of two with a given number of F32 tensors; a byte of the last one can be changed.
void write_part(const fs::path& folder, std::uint64_t number, std::uint64_t tensors, const std::string& author,
                std::int64_t changed = -1) {
  std::vector<GgufEntry> entries = {{"split.no", GgufType::u16, number},
                                    {"split.count", GgufType::u16, std::uint64_t{2}}};
  entries.push_back({"split.tensors.count", GgufType::i32, std::int64_t{3}});
  entries.push_back({"general.author", GgufType::string, author});
  std::vector<GgufTensor> list;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    list.push_back(
        {"blk." + std::to_string(number) + std::to_string(i) + ".weight", 0, {columns, rows}, 0, tensor_bytes});
  }
  std::string bytes = gguf_header(entries, list, 32);
  bytes.resize(bytes.size() + tensors * tensor_bytes, '\1');
  if (changed >= 0) bytes[bytes.size() - tensor_bytes + static_cast<std::size_t>(changed)] = '\2';
  std::ofstream(folder / ("m-0000" + std::to_string(number + 1) + "-of-00002.gguf"), std::ios::binary) << bytes;
}

std::string fingerprint_of(const fs::path& folder, int part = 1) {
  return model_fingerprint((folder / ("m-0000" + std::to_string(part) + "-of-00002.gguf")).string());
}

}  // namespace

TEST(text_is_that_of_the_published_algorithm) {
  Fingerprint empty, foobar;
  foobar.add("foo", 3);
  foobar.add("bar", 3);
  CHECK(empty.text() == "cbf29ce484222325");
  CHECK(foobar.text() == "85944171f73967e8");
}

TEST(every_part_and_tensor_counts) {
  const Folder folder;
  std::set<std::string> all;
  const auto insert = [&] { return all.insert(fingerprint_of(folder.path)).second; };
  write_part(folder.path, 0, 1, "someone");
  write_part(folder.path, 1, 2, "someone");
  CHECK(insert());
  CHECK(!insert());
  CHECK(!all.insert(fingerprint_of(folder.path, 2)).second);  // any part names the model
  for (const std::int64_t changed : {std::int64_t{0}, static_cast<std::int64_t>(tensor_bytes) - 1}) {
    write_part(folder.path, 1, 2, "someone", changed);
    CHECK(insert());
  }
  write_part(folder.path, 1, 2, "anybody");
  CHECK(insert());
  write_part(folder.path, 1, 2, "someone");
  write_part(folder.path, 0, 1, "someone", 0);
  CHECK(insert());
}

TEST(a_copy_elsewhere_is_the_same) {
  const Folder folder;
  const fs::path other = folder.path / "other";
  fs::create_directory(other);
  for (const fs::path& path : {folder.path, other}) {
    write_part(path, 0, 1, "someone");
    write_part(path, 1, 2, "someone");
  }
  CHECK(fingerprint_of(folder.path) == fingerprint_of(other));
}

TEST(a_first_part_may_hold_no_tensors_and_end_with_its_header) {
  const Folder folder;
  write_part(folder.path, 0, 0, "someone");
  write_part(folder.path, 1, 3, "someone");
  const fs::path first = folder.path / "m-00001-of-00002.gguf";
  while (true) {  // removes the padding
    std::ifstream file(first, std::ios::binary | std::ios::ate);
    file.seekg(-1, std::ios::end);
    if (file.get() != 0) break;
    fs::resize_file(first, fs::file_size(first) - 1);
  }
  CHECK(fs::file_size(first) % 32 != 0);
  CHECK(fingerprint_of(folder.path).size() == 16);
}

TEST_MAIN()
