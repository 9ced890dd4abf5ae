// Random sequences of operations on a Scheduler over toy models that fail now and then, against what must hold after
// each of them: every text is what it is alone, a failure ends only the texts that were in the pass, and every slot is
// free again.

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>
#include <random>
#include <set>
#include <sstream>

#include "base/error.h"
#include "check.h"
#include "engine/toy_engine.h"

namespace {

using namespace specdec;
using Tokens = std::vector<Token>;

constexpr int context = 48, most_tokens = 20;  // a text's
constexpr Token end_of_generation = 5;

struct Operation {
  enum Kind { add, next, cancel, cancel_all, fail } kind;
  std::uint64_t number;  // decides everything else about it
};

std::string name(const Operation& operation) {
  constexpr const char* names[] = {"add", "next", "cancel", "cancel_all", "fail"};
  return std::string(names[operation.kind]) + " " + std::to_string(operation.number);
}

// Which machine it is: from one number.
struct Setup {
  explicit Setup(std::uint64_t number)
      : seed(toy::mix(number)),
        slots(1 + static_cast<int>(seed % 4)),
        batch(8 << (seed / 4 % 3)),
        has_draft(seed / 12 % 4 != 0),
        draft_is_target(seed / 48 % 3 == 0),
        goes_back(has_draft || seed / 144 % 3 != 0) {}

  std::uint64_t seed;
  int slots, batch;
  bool has_draft, draft_is_target;
  bool goes_back;  // a recurrent model, which only runs without a draft, does not
};

// What an operation's number asks for. Prompts share beginnings.
struct Wish {
  explicit Wish(std::uint64_t number) {
    std::mt19937_64 random(number);
    const auto below = [&](int end) { return static_cast<int>(random() % static_cast<std::uint64_t>(end)); };
    prompt = toy::prompt_of(1 + below(40), static_cast<std::uint64_t>(below(2)));
    const Tokens tail = toy::prompt_of(below(4), random() % 1000);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    request.logprobs = true;
    request.max_tokens = below(10) == 0 ? below(2) : 1 + below(most_tokens);
    request.sampling.temperature = below(3) == 0 ? 0.0f : 0.9f;
    if (below(3) == 0) request.stop = {toy::vocabulary().piece(static_cast<Token>(6 + below(10)))};
    if (!request.stop.empty() && request.stop[0].empty()) request.stop.clear();
    request.drafting = below(3) == 0 ? Drafting::argmax : Drafting::sampled;
    constexpr Verification all[] = {Verification::token, Verification::block, Verification::invariant};
    request.verification = all[below(3)];
    num_draft_tokens = below(6);
    if (fixes_text() && below(4) == 0) num_draft_tokens = auto_draft_tokens;
    seed = random();
  }
  // Whatever is drafted.
  bool fixes_text() const {
    return request.sampling.temperature == 0.0f || request.verification == Verification::invariant;
  }

  Tokens prompt;
  Request request;
  int num_draft_tokens;
  std::uint64_t seed;
};

bool same(const Piece& a, const Piece& b) {
  return a.token == b.token && a.text == b.text && a.logprob == b.logprob && a.finish_reason == b.finish_reason;
}

// Models that fail where they are told to, and the scheduler over them.
struct Machine {
  explicit Machine(const Setup& setup, int slots)
      : target(toy::vocabulary_size, setup.seed, context, setup.batch, slots),
        draft(toy::vocabulary_size, setup.draft_is_target ? setup.seed : setup.seed + 1, context, setup.batch, slots),
        proposer(draft, toy::vocabulary_size),
        decoder(target, setup.has_draft ? &proposer : nullptr),
        scheduler(decoder, toy::vocabulary(), slots) {
    target.end_of_generation = draft.end_of_generation = end_of_generation;
    target.goes_back = setup.goes_back;
  }

  toy::Model target, draft;
  DraftModelProposer proposer;
  Decoder decoder;
  Scheduler scheduler;
};

std::shared_ptr<ScheduledRequest> text_of(const Wish& wish, const Setup& setup, std::int64_t id) {
  return std::make_shared<ScheduledRequest>(id, wish.request, wish.prompt, wish.seed,
                                            setup.has_draft ? wish.num_draft_tokens : 0);
}

std::vector<Piece> alone(const Wish& wish, const Setup& setup) {
  Setup quiet = setup;
  quiet.batch = context;
  quiet.has_draft = setup.has_draft && !wish.fixes_text();
  Machine machine(quiet, 1);
  machine.scheduler.add(text_of(wish, quiet, 0));
  std::vector<Piece> pieces;
  while (const std::optional<Event> event = machine.scheduler.next()) {
    if (event->piece) pieces.push_back(*event->piece);
  }
  return pieces;
}

class Run {
 public:
  explicit Run(const Setup& setup) : setup_(setup), machine_(setup, setup.slots) {
    for (toy::Model* model : {&machine_.target, &machine_.draft}) {
      model->before_pass = [this, model](int) { pass(*model, false); };
      model->after_pass = [this, model](int) { pass(*model, true); };
      model->before_truncation = model->after_copy = [this, model] {
        if (is_due(*model, Fault::change)) throw std::bad_alloc();
      };
      const toy::Model* healthy = model == &machine_.target ? &healthy_target_ : &healthy_draft_;
      model->table = [this, model, healthy](const Tokens& tokens) {
        std::vector<float> row = healthy->logits_after(tokens);
        if (is_due(*model, Fault::row)) row[0] = std::numeric_limits<float>::quiet_NaN();
        return row;
      };
    }
  }

  void apply(const Operation& operation) {
    const std::uint64_t number = operation.number;
    num_fired_ = 0;
    switch (operation.kind) {
      case Operation::add:
        add(Wish(number));
        break;
      case Operation::next:
        guarded([&] { next(); });
        break;
      case Operation::cancel:  // any of them, one that is over or not there too
        cancel(static_cast<std::int64_t>(number % (entries_.size() + 2)));
        break;
      case Operation::cancel_all:
        machine_.scheduler.cancel_all();
        for (Entry& entry : entries_) entry.is_over = true;
        break;
      case Operation::fail:
        fault_ = {static_cast<Fault::Kind>(number % Fault::num_kinds), number / 8 % 2 == 0, number / 16 % 2 == 0,
                  1 + static_cast<int>(number / 32 % 12)};
        return;
    }
    check_state();
  }

  // To the end without failures; then every slot can be had again.
  void finish() {
    fault_ = {};
    num_fired_ = 0;
    while (next()) check_state();
    CHECK(num_open() == 0);
    const std::size_t first = entries_.size();
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(setup_.slots); ++i) add(Wish(toy::mix(setup_.seed + i)));
    while (next()) check_state();
    for (std::size_t i = first; i < entries_.size(); ++i) CHECK(entries_[i].delivered == entries_[i].expected.size());
  }

 private:
  struct Fault {
    enum Kind { cancelled, model_error, bad_alloc, runtime_error, row, change, num_kinds } kind = cancelled;
    bool in_target = true, after = false;  // what the pass adds to the caches is there already
    int countdown = 0;                     // passes, or rows, of that model; 0: none will fail
  };

  struct Entry {
    std::shared_ptr<ScheduledRequest> text;
    std::vector<Piece> expected;
    std::size_t delivered = 0, drafts = 0;
    bool is_over = false;  // its last event came, or it was cancelled
    bool has_begun = false;
    bool was_active = false;  // when the fault fired
    int passed_over = 0;      // events of others since its own, while it ran
  };

  bool is_due(const toy::Model& model, Fault::Kind kind) {
    if (fault_.countdown == 0 || fault_.kind != kind || fault_.in_target != (&model == &machine_.target)) return false;
    if (--fault_.countdown > 0) return false;
    ++num_fired_;
    for (Entry& entry : entries_) entry.was_active = entry.text->has_slot();
    return true;
  }

  void pass(const toy::Model& model, bool after) {
    if (fault_.kind == Fault::row || fault_.kind == Fault::change || fault_.after != after ||
        !is_due(model, fault_.kind))
      return;
    if (fault_.kind == Fault::cancelled) throw Cancelled("injected");
    if (fault_.kind == Fault::model_error) throw ModelError("injected");
    if (fault_.kind == Fault::bad_alloc) throw std::bad_alloc();
    throw std::runtime_error("injected");
  }

  void add(const Wish& wish) {
    Entry entry;
    entry.text = text_of(wish, setup_, static_cast<std::int64_t>(entries_.size()));
    entry.expected = alone(wish, setup_);
    entries_.push_back(entry);
    machine_.scheduler.add(entry.text);
  }

  void cancel(std::int64_t id) {
    machine_.scheduler.cancel(id);
    if (id >= static_cast<std::int64_t>(entries_.size())) return;
    Entry& entry = entries_[static_cast<std::size_t>(id)];
    entry.is_over = true;
    CHECK(entry.text->state() == ScheduledRequest::State::over);
  }

  // What throws Cancelled ends no text; nothing else is thrown.
  template <class Work>
  void guarded(Work&& work) {
    const auto active = [&] {
      return std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.text->has_slot(); });
    };
    const auto before = active();
    try {
      work();
    } catch (const Cancelled&) {
      CHECK(num_fired_ == 1 && fault_.kind == Fault::cancelled && active() >= before);
      num_fired_ = 0;
    }
    CHECK(num_fired_ == 0 || fault_.kind != Fault::cancelled);
  }

  bool next() {
    const std::optional<Event> event = machine_.scheduler.next();
    if (!event) {
      CHECK(num_open() == 0);
      return false;
    }
    Entry& entry = entries_.at(static_cast<std::size_t>(event->request->id()));
    CHECK(!entry.is_over && event->request == entry.text);
    if (event->piece) {
      CHECK(entry.delivered < entry.expected.size() && same(*event->piece, entry.expected[entry.delivered]));
      ++entry.delivered;
      entry.drafts += event->piece->from_draft() ? 1 : 0;
    } else {
      CHECK(event->request->has_failed() || entry.expected.empty());
    }
    entry.is_over = event->is_last();
    if (entry.is_over) check_stats(entry);
    for (Entry& other : entries_) {
      const bool waits = other.text->state() == ScheduledRequest::State::running && &other != &entry;
      other.passed_over = waits ? other.passed_over + 1 : 0;
    }
    return true;
  }

  int num_open() const {
    return static_cast<int>(
        std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return !entry.is_over; }));
  }

  void check_stats(const Entry& entry) const {
    const Sequence& s = entry.text->sequence();
    CHECK(s.stats.prompt_tokens == static_cast<int>(entry.text->num_delivered()) - static_cast<int>(entry.delivered));
    CHECK(s.stats.prompt_cached_tokens >= 0 && s.stats.prompt_cached_tokens < s.stats.prompt_tokens);
    CHECK(s.stats.accepted <= s.stats.drafted && s.stats.tokens <= s.stats.accepted + s.stats.target_calls);
    CHECK(static_cast<std::size_t>(s.stats.tokens) == entry.delivered &&
          static_cast<std::size_t>(s.stats.accepted) == entry.drafts);
    if (!entry.text->has_failed()) CHECK(entry.delivered == entry.expected.size());
  }

  void check_state() {
    std::set<int> slots;
    bool one_waits = false;
    int num_new_failures = 0;
    for (Entry& entry : entries_) {
      const ScheduledRequest& text = *entry.text;
      const Sequence& s = text.sequence();
      if (text.has_slot()) {
        CHECK(!entry.is_over && s.slot >= 0 && s.slot < setup_.slots && slots.insert(s.slot).second);
        CHECK(static_cast<int>(s.tokens.size()) == s.num_committed);
        check_cache(machine_.target, s);
        if (setup_.has_draft) check_cache(machine_.draft, s);
        if (text.state() == ScheduledRequest::State::running && setup_.goes_back)
          CHECK(machine_.target.length(s.slot) == s.num_committed - 1);
        // Two cycles in which every other text makes all it may.
        CHECK(entry.passed_over <= 2 * setup_.slots * most_tokens);
      }
      // What was made and not delivered is forgotten.
      if (text.state() == ScheduledRequest::State::over) CHECK(s.num_committed == text.num_delivered());
      // First come, first served.
      if (text.has_slot() || entry.delivered > 0 || text.has_failed()) entry.has_begun = true;
      CHECK(!(one_waits && entry.has_begun));
      if (text.state() == ScheduledRequest::State::waiting) one_waits = true;

      if (text.has_failed() && failed_.insert(text.id()).second) {
        ++num_new_failures;
        CHECK(num_fired_ == 1 && (entry.was_active || fault_.kind == Fault::change || num_open() > setup_.slots));
        check_error(text);
      }
    }
    const bool throws = fault_.kind != Fault::row && fault_.kind != Fault::change;
    CHECK(num_fired_ == 0 || !throws || num_new_failures > 0);
    CHECK(fault_.kind != Fault::row || num_new_failures <= 1);
  }

  static void check_cache(const toy::Model& model, const Sequence& s) {
    const Tokens& cached = model.cache(s.slot);
    CHECK(static_cast<int>(cached.size()) < s.num_committed &&
          std::equal(cached.begin(), cached.end(), s.tokens.begin()));
  }

  void check_error(const ScheduledRequest& text) const {
    const std::string message = text.error_message();
    if (fault_.kind == Fault::row) {
      CHECK(message.find(fault_.in_target ? "the target model failed: logits" : "the draft model failed: logits") == 0);
    } else {
      CHECK(message ==
            (fault_.kind == Fault::bad_alloc || fault_.kind == Fault::change ? std::bad_alloc().what() : "injected"));
    }
  }

  Setup setup_;
  Machine machine_;
  toy::Model healthy_target_{toy::vocabulary_size, setup_.seed};
  toy::Model healthy_draft_{toy::vocabulary_size, setup_.draft_is_target ? setup_.seed : setup_.seed + 1};
  std::vector<Entry> entries_;  // by id
  std::set<std::int64_t> failed_;
  Fault fault_;
  int num_fired_ = 0;  // in this operation
};

using Operations = std::vector<Operation>;

// What went wrong; empty if nothing did.
std::string outcome(const Setup& setup, const Operations& operations) {
  try {
    Run run(setup);
    for (const Operation& operation : operations) run.apply(operation);
    run.finish();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

Operations random_operations(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr Operation::Kind bag[] = {Operation::add,   Operation::add,  Operation::add,  Operation::next,
                                     Operation::next,  Operation::next, Operation::next, Operation::next,
                                     Operation::next,  Operation::next, Operation::fail, Operation::fail,
                                     Operation::cancel};
  Operations operations(10 + random() % 60);
  for (Operation& operation : operations) {
    const std::uint64_t number = random();
    operation = {number % 100 == 0 ? Operation::cancel_all : bag[number / 100 % std::size(bag)], random() % 100000};
  }
  return operations;
}

// Leaves out what the failure does not need.
Operations shortened(const Setup& setup, Operations operations) {
  for (std::size_t i = operations.size(); i-- > 0;) {
    Operations shorter = operations;
    shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(i));
    if (!outcome(setup, shorter).empty()) operations = std::move(shorter);
  }
  return operations;
}

}  // namespace

// SPECDEC_SEQUENCES=FIRST:COUNT: other ones.
TEST(random_sequences_of_operations) {
  std::uint64_t first = 0, count = 5000;
  if (const char* wanted = std::getenv("SPECDEC_SEQUENCES")) CHECK(std::sscanf(wanted, "%lu:%lu", &first, &count) == 2);
  for (std::uint64_t number = first; number < first + count; ++number) {
    const Setup setup(number);
    const Operations operations = random_operations(number);
    if (outcome(setup, operations).empty()) continue;
    const Operations needed = shortened(setup, operations);
    std::ostringstream text;
    text << "sequence " << number << ": " << outcome(setup, needed) << "; " << setup.slots << " slots, batch "
         << setup.batch << (setup.has_draft ? ", a draft" : "") << (setup.goes_back ? "" : ", recurrent");
    for (const Operation& operation : needed) text << "\n  " << name(operation);
    throw check::Failure(text.str());
  }
}

TEST_MAIN()
