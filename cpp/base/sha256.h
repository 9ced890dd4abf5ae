// SHA-256 of data that arrives in pieces.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace specdec {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void add(const void* data, std::size_t bytes);
  std::string finish();  // 64 hexadecimal digits; the next add() begins a new hash
  static std::string of(std::string_view bytes) {
    Sha256 hash;
    hash.add(bytes.data(), bytes.size());
    return hash.finish();
  }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace specdec
