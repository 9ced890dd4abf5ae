// Each request gets a thread at once, up to the limit, however many come together.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "check.h"
#include "server/workers.h"

using specdec::server::Workers;

namespace {

// Requests that wait until all expected ones run together.
struct Meeting {
  explicit Meeting(int all) : expected(all) {}

  std::mutex mutex;
  std::condition_variable changed;
  int present = 0;
  const int expected;

  void join() {
    std::unique_lock<std::mutex> lock(mutex);
    ++present;
    changed.notify_all();
    changed.wait(lock, [this] { return present >= expected; });
  }
  void wait_for(int count) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return present >= count; });
  }
};

}  // namespace

TEST(each_request_of_a_burst_gets_a_thread) {
  Workers workers(2, 12, 100);
  for (int round = 0; round < 20; ++round) {
    const auto meeting = std::make_shared<Meeting>(12);
    for (int request = 0; request < 12; ++request) CHECK(workers.enqueue([meeting] { meeting->join(); }));
    meeting->wait_for(12);
  }
}

TEST(accepted_requests_are_served_before_it_ends) {
  std::atomic<int> served{0};
  Meeting meeting(2);
  Workers workers(0, 1, 3);
  CHECK(workers.enqueue([&] { meeting.join(); }));
  meeting.wait_for(1);
  for (int request = 0; request < 3; ++request) CHECK(workers.enqueue([&] { ++served; }));
  CHECK(!workers.enqueue([&] { ++served; }));  // one too many
  meeting.join();
  workers.shutdown();
  CHECK(served == 3);
  CHECK(!workers.enqueue([] {}));
}

TEST_MAIN()
