// What is kept of the constraints of earlier requests: little, whatever they ask for.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "check.h"
#include "engine/request_constraints.h"
#include "engine/toy_engine.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;

constexpr double most_mib = 64.0;

// Of this process; 0 where it is not known.
double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double all = 0.0, resident = 0.0;
  file >> all >> resident;
  return resident * 4096 / (1 << 20);
}

struct Constraints : RequestConstraints {
  Constraints() : RequestConstraints(toy::vocabulary(), toy::vocabulary().size(), "toy.gguf") {}

  void compile_regex(const std::string& regex, const Tokens& control_tokens) {
    Request request;
    request.regex = regex;
    request.control_tokens = control_tokens;
    CHECK(compile(request) != nullptr);
  }
  bool keeps(const Tokens& control_tokens) const {
    const auto kept = kept_compilers();
    return std::find(kept.begin(), kept.end(), control_tokens) != kept.end();
  }
};

TEST(sets_of_control_tokens_come_and_go_and_the_one_in_use_stays) {
  Constraints constraints;
  const Tokens in_use = {3, 5};
  double before = 0.0;
  for (Token i = 0; i < 2000; ++i) {
    const Tokens others = {i % 50, 50 + i / 50};
    constraints.compile_regex("[a-c]{3}", others);
    constraints.compile_regex("[a-c]{3}", in_use);
    CHECK(constraints.kept_compilers().size() <= 3 && constraints.keeps(others) && constraints.keeps(in_use));
    if (i == 100) before = resident_mib();
  }
  CHECK(resident_mib() < before + most_mib);
}

TEST(the_oldest_compiler_is_the_one_that_goes) {
  Constraints constraints;
  for (const Token token : {1, 2, 3, 1, 4}) constraints.compile_regex("a", {token});
  CHECK(constraints.kept_compilers() == (std::vector<Tokens>{{4}, {1}, {3}}));
}

TEST(thousands_of_different_grammars_and_schemas) {
  Constraints constraints;
  double before = 0.0;
  for (int i = 0; i < 3000; ++i) {
    const std::string name = "\"name_" + std::to_string(i) + "\"";
    Request request;
    if (i % 2 == 0) request.grammar = "root ::= " + name + " (\",\" [a-z]{1,8})* [^x]{1,9} root?";
    else request.json_schema = R"({"type":"object","properties":{)" + name + R"(:{"type":"string"}}})";
    CHECK(constraints.compile(request) != nullptr);
    if (i == 300) before = resident_mib();
  }
  CHECK(constraints.kept_compilers().size() == 1);
  CHECK(resident_mib() < before + most_mib);
}

// Each of many places allows one token: what is kept of it is more than the token.
TEST(masks_of_few_tokens) {
  Constraints constraints;
  double before = 0.0;
  unsigned number = 1;
  for (int i = 0; i < 1500; ++i) {
    Request request;
    request.grammar = "root ::= \"";
    for (int j = 0; j < 300; ++j) {
      number = number * 1664525 + 1013904223;
      *request.grammar += static_cast<char>('a' + (number >> 24) % 8);
    }
    *request.grammar += "\"";
    CHECK(constraints.compile(request) != nullptr);
    if (i == 50) before = resident_mib();
  }
  CHECK(resident_mib() < before + most_mib);
}

}  // namespace

TEST_MAIN()
