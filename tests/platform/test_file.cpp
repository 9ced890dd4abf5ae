// Files at positions, their locks and their replacement; temporary folders.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "platform/file.h"
#include "platform/temporary_folder.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

struct Folder : TemporaryFolder {
  std::string operator/(const char* name) const { return (path() / name).string(); }
};

std::string content(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(bytes_are_where_they_were_written) {
  const Folder folder;
  File file = File::create(folder / "a");
  file.write(4, "efgh", 4);
  file.write(0, "abcd", 4);
  file.resize(10);
  file.sync();
  CHECK(content(folder / "a") == std::string("abcdefgh\0\0", 10));
  std::string read(4, ' ');
  file.read(2, read.data(), 4);
  CHECK(read == "cdef");
  CHECK(file.read_some(8, read.data(), 4) == 2 && file.read_some(10, read.data(), 4) == 0);
  CHECK_THROWS(file.read(8, read.data(), 4), Error, "became shorter");
  file.close();
}

TEST(what_a_file_holds_stays_or_goes_as_asked) {
  const Folder folder;
  File::create(folder / "a").write(0, "old", 3);
  CHECK(!File::create_new(folder / "a"));
  File::open_or_create(folder / "a").write(0, "b", 1);
  CHECK(content(folder / "a") == "bld");
  File::create(folder / "a");
  CHECK(content(folder / "a").empty());
  CHECK(File::create_new(folder / "b"));
}

TEST(reading_ahead_says_how_far_it_is) {
  const Folder folder;
  File file = File::create(folder / "a");
  file.resize((std::uint64_t{40} << 20) + 1);
  std::vector<double> shares;
  const auto at_most = [&](std::size_t parts) {
    return [&shares, parts](double share) {
      shares.push_back(share);
      return shares.size() < parts;
    };
  };
  file.read_ahead(at_most(100));
  if (shares.empty()) return;  // a system that has no way to
  CHECK(shares.size() == 3 && std::is_sorted(shares.begin(), shares.end()) && shares.back() == 1.0);
  shares.clear();
  file.read_ahead(at_most(2));
  CHECK(shares.size() == 2);
  file.resize(0);
  file.read_ahead(at_most(1));
  CHECK(shares.size() == 2);
}

TEST(a_lock_ends_with_its_file) {
  const Folder folder;
  File first = File::open_or_create(folder / "a"), second = File::open_or_create(folder / "a");
  CHECK(first.try_lock() && !second.try_lock());
  first.close();
  CHECK(second.try_lock());
}

TEST(a_file_takes_the_place_of_another) {
  const Folder folder;
  File::create(folder / "new").write(0, "new", 3);
  File::create(folder / "old").write(0, "old", 3);
  replace_file(folder / "new", folder / "old");
  sync_folder_of(folder / "old");
  CHECK(content(folder / "old") == "new" && !fs::exists(folder / "new"));
}

TEST(errors_name_the_file_and_what_to_check) {
  const Folder folder;
  CHECK_THROWS(File::open(folder / "none"), Error, "none: cannot be opened: No such file");
  CHECK_THROWS(File::open(folder / "none"), Error, "check the path");
  CHECK_THROWS(File::create_new(folder / "no/file"), Error, "no/file: cannot be created");
  CHECK_THROWS(replace_file(folder / "none", folder / "a"), Error, "a: cannot be replaced");
  File::create(folder / "a");
  File reader = File::open(folder / "a");
  CHECK_THROWS(reader.write(0, "x", 1), Error, "a: cannot be written");
}

TEST(a_temporary_folder_goes_with_what_it_holds) {
  fs::path path;
  {
    const Folder folder, other;
    path = folder.path();
    CHECK(path != other.path());
    File::create(folder / "a");
    CHECK(fs::exists(path / "a"));
  }
  CHECK(!fs::exists(path));
}

}  // namespace
}  // namespace specdec

TEST_MAIN()
