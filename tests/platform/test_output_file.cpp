// Files that appear when they are complete: what may be replaced, and what a killed writer leaves behind.
#include <filesystem>
#include <set>
#include <string>

#include "base/error.h"
#include "check.h"
#include "platform/output_file.h"
#include "platform/process.h"
#include "platform/temporary_folder.h"

using namespace specdec;

namespace {

namespace fs = std::filesystem;

const std::string remedy = "say so";

struct Folder : TemporaryFolder {
  std::string operator/(const std::string& name) const { return (path() / name).string(); }
  void put(const std::string& name, const std::string& text = "old") const {
    File::create(*this / name).write(0, text.data(), text.size());
  }
  std::string text(const std::string& name) const { return File::open(*this / name).read_all(); }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(path()))
      found.insert(entry.path().filename().string());
    return found;
  }
};

void write(const std::string& path, bool overwrites) {
  OutputFile output(path, overwrites, remedy);
  output.file().write(0, "new", 3);
  output.publish();
}

std::string partial(const std::string& name, std::uint64_t process) {
  return name + ".partial-" + std::to_string(process);
}

constexpr std::uint64_t nobody = 0x7fffffff;  // no system has such a process

}  // namespace

TEST(a_file_appears_when_it_is_complete) {
  const Folder folder;
  {
    OutputFile output(folder / "a", false, remedy);
    CHECK((folder.names() == std::set<std::string>{partial("a", process_id())}));
    OutputFile second(folder / "a", false, remedy);
    CHECK(folder.names().size() == 2);
    output.file().write(0, "new", 3);
    output.publish();
    CHECK(folder.text("a") == "new");
    CHECK_THROWS(second.publish(), Error, "exists already; name another file, or say so");
  }
  CHECK((folder.names() == std::set<std::string>{"a"}));
}

TEST(an_existing_file_is_replaced_only_if_that_was_asked) {
  const Folder folder;
  folder.put("a");
  CHECK_THROWS(write(folder / "a", false), Error, "exists already; name another file, or say so");
  CHECK(folder.text("a") == "old");
  write(folder / "a", true);
  CHECK(folder.text("a") == "new");
  fs::create_directory(folder / "b");
  CHECK_THROWS(write(folder / "b", true), Error, "is not a regular file");
  CHECK_THROWS(write(folder / "none/c", true), Error, "there is no folder");
  CHECK((folder.names() == std::set<std::string>{"a", "b"}));
}

TEST(a_link_is_followed) {
  const Folder folder;
  folder.put("a");
  fs::create_symlink(folder / "a", folder / "link");
  CHECK_THROWS(write(folder / "link", false), Error, "exists already");
  write(folder / "link", true);
  CHECK(fs::is_symlink(folder / "link") && folder.text("a") == "new");
}

TEST(what_a_killed_writer_left_is_removed) {
  const Folder folder;
  folder.put(partial("a", nobody));
  folder.put(partial("a", nobody) + "-1");
  folder.put(partial("a", process_id()));  // of an earlier process with this number, in another container
  folder.put(partial("a", 1));             // runs everywhere
  folder.put(partial("other", nobody));
  folder.put("a.part");
  write(folder / "a", false);
  CHECK((folder.names() == std::set<std::string>{"a", partial("a", 1), partial("other", nobody), "a.part"}));
}

TEST(a_file_that_is_being_written_stays) {
  const Folder folder;
  std::optional<File> locked = claim_partial(folder / partial("a", nobody));  // as if in another container
  CHECK(locked && !claim_partial(folder / partial("a", nobody)));
  write(folder / "a", false);
  CHECK((folder.names() == std::set<std::string>{"a", partial("a", nobody)}));
  locked.reset();
  write(folder / "a", true);
  CHECK((folder.names() == std::set<std::string>{"a"}));
}

TEST_MAIN()
