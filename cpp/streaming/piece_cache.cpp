#include "streaming/piece_cache.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "base/index.h"

namespace specdec {
namespace {

// Of a use, after as many operations: about 60 passes of a model with 50 layers of three matrices halve a score.
constexpr double half_life = 10000;
// Expected pieces may replace what was used less than this.
constexpr double expected_score = 0.5;

}  // namespace

std::size_t PieceCache::least_slots(int num_threads) { return idx(num_threads) + 1; }

PieceCache::PieceCache(std::vector<FileRange> pieces, const std::vector<Pool>& pools)
    : ranges_(std::move(pieces)), pieces_(ranges_.size()) {
  for (const Pool& pool : pools) {
    PoolState& state = pools_.emplace_back(PoolState{SlotMemory(pool.num_slots, direct_bytes_for(pool.bytes)), {}, {}});
    for (std::size_t slot = pool.num_slots; slot-- > 0;) state.free.push_back(slot);
    state.ready.reserve(pool.num_slots);
  }
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const auto pool = std::find_if(pools.begin(), pools.end(),
                                   [&](const Pool& candidate) { return candidate.bytes == ranges_[i].bytes; });
    pieces_[i].pool = idx(pool - pools.begin());
  }
  present_.reserve(ranges_.size());
}

PieceCache::~PieceCache() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  work_.notify_all();
  readers_.join();
}

double PieceCache::score_of(const Piece& piece) const {
  return piece.score * std::exp2(-static_cast<double>(num_operations_ - piece.scored) / half_life);
}

std::uint8_t* PieceCache::fill(int index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Piece& piece = pieces_[idx(index)];
  PoolState& pool = pools_[piece.pool];
  if (pool.free.empty()) return nullptr;
  piece.slot = pool.free.back();
  pool.free.pop_back();
  piece.state = State::ready;
  pool.ready.push_back(index);
  piece.data = pool.memory.slot(piece.slot);
  return pool.memory.slot(piece.slot);
}

void PieceCache::start(const std::vector<std::string>& files, int num_threads) {
  files_.emplace(files);
  readers_.start(num_threads, [this] { read_queues(); });
}

void PieceCache::begin(const std::vector<int>& pieces, int num_takers) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const int index : present_) pieces_[idx(index)].takers_left = 0;  // of a cancelled operation
  forget(wanted_);
  present_.assign(pieces.begin(), pieces.end());
  ++num_operations_;
  try {
    for (const int index : pieces) {
      Piece& piece = pieces_[idx(index)];
      piece.score = score_of(piece) + 1;
      piece.scored = num_operations_;
      piece.takers_left = num_takers;
      piece.turn = ++turn_;
      ++counts_.used;
      if (piece.state == State::ready || piece.state == State::reading) continue;
      ++counts_.missed;
      piece.state = State::waiting;
      piece.is_expected = false;
      wanted_.push_back(index);
    }
  } catch (const std::bad_alloc&) {
    has_failed_ = true;
    problem_ = "there is no memory";
  }
  work_.notify_all();
}

void PieceCache::expect(const std::vector<int>& pieces) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    forget(expected_);
    for (const int index : pieces) {
      Piece& piece = pieces_[idx(index)];
      if (piece.state != State::absent) continue;
      piece.state = State::waiting;
      piece.is_expected = true;
      expected_.push_back(index);
    }
  } catch (const std::bad_alloc&) {  // it is only a guess
  }
  work_.notify_all();
}

const std::uint8_t* PieceCache::take(int index) noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  Piece& piece = pieces_[idx(index)];
  arrival_.wait(lock, [&] { return has_failed_ || piece.state == State::ready; });
  if (has_failed_) return nullptr;
  ++piece.num_holders;
  return piece.data;
}

void PieceCache::give_back(int index) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  Piece& piece = pieces_[idx(index)];
  --piece.num_holders;
  --piece.takers_left;
  if (piece.num_holders == 0) work_.notify_one();  // its slot can be used
}

bool PieceCache::has_failed() const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return has_failed_;
}

std::string PieceCache::take_problem() {
  std::unique_lock<std::mutex> lock(mutex_);
  // Readers that are still busy may fail for the same reason; none begins meanwhile.
  arrival_.wait(lock, [this] { return !has_failed_ || num_reading_ == 0; });
  if (has_failed_) {  // nobody waits for what the failed operation wanted
    forget(wanted_);
    forget(expected_);
  }
  has_failed_ = false;
  return std::exchange(problem_, {});
}

PieceCache::Counts PieceCache::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

// Pieces of a queue that another queue has taken over stay there.
void PieceCache::forget(std::deque<int>& queue) {
  for (const int index : queue) {
    Piece& piece = pieces_[idx(index)];
    if (piece.state == State::waiting && piece.is_expected == (&queue == &expected_)) piece.state = State::absent;
  }
  queue.clear();
}

void PieceCache::drop(PoolState& pool, std::size_t index) {
  Piece& piece = pieces_[idx(pool.ready[index])];
  pool.free.push_back(piece.slot);
  piece.state = State::absent;
  piece.data = nullptr;
  pool.ready[index] = pool.ready.back();
  pool.ready.pop_back();
}

// A slot for this piece: a free one, else that of the piece with the least score that the present operation does not
// take any more, else that of the one it takes last, after this one. None yet if that score is higher than this piece's
// and another slot will do soon: that of a piece which the operation takes before this one.
bool PieceCache::find_slot(int index) {
  const Piece& piece = pieces_[idx(index)];
  PoolState& pool = pools_[piece.pool];
  if (!pool.free.empty()) return true;
  double least = piece.is_expected ? expected_score : std::numeric_limits<double>::infinity();
  std::size_t victim = pool.ready.size(), last = pool.ready.size();
  bool is_soon_free = false;
  std::uint64_t latest = piece.is_expected ? std::numeric_limits<std::uint64_t>::max() : piece.turn;
  for (std::size_t i = 0; i < pool.ready.size(); ++i) {
    const Piece& other = pieces_[idx(pool.ready[i])];
    is_soon_free = is_soon_free || (other.takers_left > 0 && other.turn < piece.turn);
    if (other.num_holders > 0) continue;
    if (other.takers_left > 0) {
      if (other.turn > latest) last = i, latest = other.turn;
    } else if (const double score = score_of(other); score < least) {
      victim = i;
      least = score;
    }
  }
  if (victim != pool.ready.size() && is_soon_free && least > score_of(piece)) return false;
  if (victim == pool.ready.size()) victim = last;
  if (victim == pool.ready.size()) return false;
  const int dropped = pool.ready[victim];
  drop(pool, victim);
  if (victim == last) {  // it is wanted all the same
    pieces_[idx(dropped)].state = State::waiting;
    const auto is_earlier = [this](std::uint64_t turn, int other) { return turn < pieces_[idx(other)].turn; };
    wanted_.insert(std::upper_bound(wanted_.begin(), wanted_.end(), pieces_[idx(dropped)].turn, is_earlier), dropped);
  }
  return true;
}

// Takes the first piece out of a queue that can be read now.
bool PieceCache::start_reading(std::deque<int>& queue, int& piece) {
  while (!queue.empty()) {
    const int index = queue.front();
    Piece& candidate = pieces_[idx(index)];
    if (candidate.state != State::waiting || candidate.is_expected != (&queue == &expected_)) {
      queue.pop_front();  // it is wanted by now, and no longer only expected
      continue;
    }
    if (!find_slot(index)) {
      if (&queue != &expected_) return false;
      candidate.state = State::absent;  // not worth another's slot
      queue.pop_front();
      continue;
    }
    queue.pop_front();  // what was put back lies behind
    PoolState& pool = pools_[candidate.pool];
    candidate.slot = pool.free.back();
    pool.free.pop_back();
    candidate.state = State::reading;
    candidate.is_expected = false;
    piece = index;
    return true;
  }
  return false;
}

void PieceCache::read_queues() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    int index = -1;
    work_.wait(lock, [&] {
      return is_ending_ ||
             (!has_failed_ && (start_reading(wanted_, index) || (wanted_.empty() && start_reading(expected_, index))));
    });
    if (is_ending_) return;
    Piece& piece = pieces_[idx(index)];
    PoolState& pool = pools_[piece.pool];
    std::uint8_t* const memory = pool.memory.slot(piece.slot);
    ++num_reading_;
    lock.unlock();
    std::string problem;
    const std::uint8_t* const data = files_->try_read(ranges_[idx(index)], memory, problem);
    lock.lock();
    --num_reading_;
    if (data != nullptr) {
      counts_.bytes_read += ranges_[idx(index)].bytes;
      piece.data = data;
      piece.state = State::ready;
      pool.ready.push_back(index);  // there is room
    } else {
      pool.free.push_back(piece.slot);
      piece.state = State::absent;
      has_failed_ = true;
      problem_ = problem;
    }
    arrival_.notify_all();
  }
}

}  // namespace specdec
