// Folders of a limited size: what goes first, what stays, and what is not touched.
#include <chrono>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "check.h"
#include "disk_cache/bounded_folder.h"
#include "platform/file.h"
#include "platform/output_file.h"
#include "platform/temporary_folder.h"

using namespace specdec;

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

struct Folder : TemporaryFolder {
  void put(const std::string& name, std::uint64_t bytes, int hours_ago) const {
    File::create((path() / name).string()).resize(bytes);
    fs::last_write_time(path() / name, fs::file_time_type::clock::now() - std::chrono::hours(hours_ago));
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(path()))
      found.insert(entry.path().filename().string());
    return found;
  }
};

}  // namespace

TEST(what_was_not_used_for_the_longest_goes_first) {
  const Folder folder;
  folder.put("a.x", 100, 3);
  folder.put("b.x", 100, 2);
  folder.put("c.x", 100, 1);
  folder.put("d.y", 1000, 9);  // of someone else
  const BoundedFolder bounded(folder.path().string(), 350, ".x");
  CHECK(bounded.make_room(50) && folder.names().size() == 4);
  bounded.mark_used("a.x");
  CHECK(bounded.make_room(100));
  CHECK((folder.names() == std::set<std::string>{"a.x", "c.x", "d.y"}));
  CHECK(bounded.make_room(350));
  CHECK((folder.names() == std::set<std::string>{"d.y"}));
}

TEST(nothing_goes_where_that_would_not_help) {
  const Folder folder;
  folder.put("a.x", 100, 1);
  const BoundedFolder bounded(folder.path().string(), 200, ".x"), of_any_size(folder.path().string(), unlimited, ".x");
  CHECK(!bounded.make_room(201));
  CHECK(!of_any_size.make_room(fs::space(folder.path()).available - 1000));  // a part of the disk stays free
  CHECK((folder.names() == std::set<std::string>{"a.x"}));
}

TEST(abandoned_files_are_removed) {
  const Folder folder;
  const std::optional<File> writing = claim_partial((folder.path() / "a.x.part").string());
  folder.put("b.x.part", 10, 0);
  folder.put("c.x.partial-2147483647", 10, 0);
  folder.put("d.y.part", 10, 2);
  const BoundedFolder bounded(folder.path().string(), 100, ".x");
  CHECK((folder.names() == std::set<std::string>{"a.x.part", "d.y.part"}));
  CHECK(bounded.files().empty());
  CHECK_THROWS(BoundedFolder((folder.path() / "a.x.part").string(), 100, ".x"), Error, "cannot be created as a folder");
}

TEST(users_write_folder_and_size) {
  const auto is = [](const std::string& text, const std::string& path, std::uint64_t bytes) {
    const FolderLimit limit = parse_folder_limit(text, 7);
    return limit.folder == path && limit.most_bytes == bytes;
  };
  CHECK(is("a", "a", 7) && is("a:2", "a", 2 << 20) && is("C:\\a", "C:\\a", 7) && is("C:\\a:1", "C:\\a", 1 << 20));
  CHECK(is("a:", "a:", 7) && is("a:123456789", "a:123456789", 7));
}

TEST_MAIN()
