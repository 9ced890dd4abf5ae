// Pieces of work on several threads: each is done once, exceptions are rethrown, ticks run on the caller.
#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "check.h"

using namespace specdec;

TEST(every_piece_is_done_once) {
  for (const int threads : {1, 2, 7}) {
    for (const std::int64_t pieces : {0, 1, 5, 1000}) {
      std::vector<std::atomic<int>> done(static_cast<std::size_t>(pieces));
      for_each_piece(threads, pieces, [&](std::int64_t piece) { ++done[static_cast<std::size_t>(piece)]; });
      CHECK(std::all_of(done.begin(), done.end(), [](const std::atomic<int>& count) { return count == 1; }));
    }
  }
}

TEST(ticks_run_on_the_calling_thread_after_its_own_pieces) {
  const auto caller = std::this_thread::get_id();
  std::atomic<int> of_caller{0};
  int ticks = 0;
  bool elsewhere = false;
  const auto work = [&](std::int64_t, int thread) { of_caller += thread == 0 ? 1 : 0; };
  for_each_piece(3, 100, work, [&] { ++ticks, elsewhere = elsewhere || std::this_thread::get_id() != caller; });
  CHECK(ticks == of_caller);
  CHECK(!elsewhere);
}

TEST(the_first_pieces_exception_is_rethrown) {
  for (const int threads : {1, 4}) {
    std::string caught;
    try {
      for_each_piece(threads, 50, [](std::int64_t piece) {
        if (piece >= 3) throw std::runtime_error(std::to_string(piece));
      });
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
    CHECK(caught == "3");
  }
}

TEST_MAIN()
