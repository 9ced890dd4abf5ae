// Threads that read weights ahead of the computation.
#pragma once

#include <functional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace specdec {

class Readers {
 public:
  // At least one thread, up to `count`, that runs this until it returns. Throws Error.
  void start(int count, const std::function<void()>& run) {
    try {
      for (int reader = 0; reader < count; ++reader) threads_.emplace_back(run);
    } catch (const std::system_error&) {
      if (threads_.empty()) throw Error("no thread could be started to read weights; close other programs");
    }
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace specdec
