// Which models a ModelPool loads and unloads, without models.
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "check.h"
#include "server/api_error.h"
#include "server/model_pool.h"

using namespace specdec;
using namespace specdec::server;

namespace {

using std::chrono::milliseconds;

// What loads and unloads do, and the memory that it takes.
struct Machine {
  std::mutex mutex;
  std::string events;  // "+a-a+b"
  std::uint64_t free_memory = 100;
  std::map<std::string, std::uint64_t> needs = {{"a", 40}, {"b", 40}, {"c", 70}, {"huge", 500}};
  std::atomic<bool> holds_loads{false};

  void add(const std::string& event) {
    const std::lock_guard<std::mutex> lock(mutex);
    events += event;
  }
  std::string log() {
    const std::lock_guard<std::mutex> lock(mutex);
    return events;
  }

  std::shared_ptr<Service> load(const KnownModel& model, const LoadProgressCallback& progress) {
    while (holds_loads) {
      if (!progress({"reading", 0.5})) throw Cancelled("the load was interrupted");
      std::this_thread::sleep_for(milliseconds(1));
    }
    if (model.path == "bad") throw ModelError("it is cut");
    add("+" + model.name);
    const std::uint64_t need = needs[model.name];
    {
      const std::lock_guard<std::mutex> lock(mutex);
      free_memory -= std::min(free_memory, need);
    }
    // Never used, so it need not be one.
    std::shared_ptr<char> fake(new char, [this, name = model.name, need](char* memory) {
      delete memory;
      add("-" + name);
      const std::lock_guard<std::mutex> lock(mutex);
      free_memory += need;
    });
    return {fake, reinterpret_cast<Service*>(fake.get())};
  }

  ModelPool::Loader loader() {
    return {[this](const KnownModel& model, const LoadProgressCallback& progress) { return load(model, progress); },
            [this](const KnownModel& model) { return needs[model.name]; },
            [this] {
              const std::lock_guard<std::mutex> lock(mutex);
              return free_memory;
            }};
  }
};

const std::vector<KnownModel> models = {{"a", ""}, {"b", ""}, {"c", ""}, {"huge", ""}, {"bad", "bad"}};

const ModelPool::Waiting patiently = [](const LoadProgress&) {};

ModelPool::Options most(std::size_t count) {
  ModelPool::Options options;
  options.most = count;
  options.patience = milliseconds(200);
  return options;
}

}  // namespace

TEST(memory_that_is_short_unloads_what_was_not_used_for_the_longest) {
  Machine machine;
  ModelPool pool(models, most(0), machine.loader());
  pool.use("a", patiently);
  pool.use("b", patiently);
  pool.use("a", patiently);
  CHECK(machine.log() == "+a+b");
  pool.use("c", patiently);  // has room only if both go
  CHECK(machine.log() == "+a+b-b-a+c");
  pool.use("huge", patiently);  // is tried alone
  CHECK(machine.log() == "+a+b-b-a+c-c+huge");
}

TEST(no_more_models_than_allowed) {
  Machine machine;
  machine.free_memory = 10000;
  ModelPool pool(models, most(2), machine.loader());
  for (const char* name : {"a", "b", "a", "c", "b"}) pool.use(name, patiently);
  CHECK(machine.log() == "+a+b-b+c-a+b");
}

TEST(a_model_in_use_stays) {
  Machine machine;
  ModelPool::Options options = most(1);
  options.patience = std::chrono::hours(1);
  ModelPool pool(models, options, machine.loader());
  std::shared_ptr<Service> used = pool.use("a", patiently);
  auto other = std::async(std::launch::async, [&] { return pool.use("b", patiently); });
  CHECK(other.wait_for(milliseconds(100)) == std::future_status::timeout);
  pool.use("a", patiently);
  used.reset();
  other.get();
  CHECK(machine.log() == "+a-a+b");
}

TEST(one_that_waits_for_long_gets_its_turn) {
  Machine machine;
  ModelPool pool(models, most(1), machine.loader());
  std::shared_ptr<Service> used = pool.use("a", patiently);
  auto other = std::async(std::launch::async, [&] { return pool.use("b", patiently); });
  CHECK(other.wait_for(milliseconds(400)) == std::future_status::timeout);
  auto again = std::async(std::launch::async, [&] { return pool.use("a", patiently); });  // waits, too, from now on
  CHECK(again.wait_for(milliseconds(50)) == std::future_status::timeout);
  used.reset();
  other.get().reset();
  again.get().reset();
  CHECK(machine.log() == "+a-a+b-b+a");
}

TEST(who_gives_up_changes_nothing) {
  Machine machine;
  ModelPool pool(models, most(1), machine.loader());
  std::shared_ptr<Service> used = pool.use("a", patiently);
  int looks = 0;
  const auto impatiently = [&](const LoadProgress&) {
    if (++looks > 15) throw ClientGone();
  };
  CHECK_THROWS(pool.use("b", impatiently), ClientGone, "the client has closed the connection");
  used.reset();
  pool.use("a", patiently);
  CHECK(machine.log() == "+a");
}

TEST(loads_that_fail_are_told_and_tried_again) {
  Machine machine;
  ModelPool pool(models, most(1), machine.loader());
  for (int i = 0; i < 2; ++i)
    CHECK_THROWS(pool.use("bad", patiently), ApiError, "the model bad could not be loaded: it is cut");
  CHECK(pool.status("bad").problem == "it is cut");
  pool.use("a", patiently);
  CHECK(machine.log() == "+a");
}

TEST(many_who_wait_for_one_model_load_it_once) {
  Machine machine;
  machine.holds_loads = true;
  ModelPool pool(models, most(1), machine.loader());
  std::vector<std::future<std::shared_ptr<Service>>> waiting;
  for (int i = 0; i < 8; ++i)
    waiting.push_back(std::async(std::launch::async, [&] { return pool.use("a.gguf", patiently); }));
  while (pool.status("a").state != ModelPool::State::loading || pool.status("a").progress.share < 0.5)
    std::this_thread::sleep_for(milliseconds(1));
  machine.holds_loads = false;
  for (auto& one : waiting) one.get();
  CHECK(machine.log() == "+a");
}

TEST(a_pool_that_ends_interrupts_a_load) {
  Machine machine;
  machine.holds_loads = true;
  std::future<void> waiting;
  {
    ModelPool pool(models, most(1), machine.loader());
    waiting = std::async(std::launch::async, [&] {
      CHECK_THROWS((void)pool.use("a", patiently), ApiError, "the server is shutting down");
    });
    while (pool.status("a").state != ModelPool::State::loading) std::this_thread::sleep_for(milliseconds(1));
    pool.close_queue();
    waiting.get();
  }
  CHECK(machine.log().empty());
}

TEST_MAIN()
