#include "streaming/weight_stream.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/index.h"

namespace specdec {
namespace {

std::size_t largest(const std::vector<StreamedPart>& parts) {
  std::size_t bytes = 0;
  for (const StreamedPart& part : parts) bytes = std::max(bytes, part.bytes);
  return bytes;
}

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Whether some = all without some of its elements.
bool is_part_of(const std::vector<int>& some, const std::vector<int>& all) {
  auto at = all.begin();
  for (const int value : some) {
    at = std::find(at, all.end(), value);
    if (at == all.end()) return false;
    ++at;
  }
  return true;
}

}  // namespace

WeightStream::WeightStream(const std::vector<std::string>& files, std::vector<StreamedPart> parts,
                           const Options& options)
    : parts_(std::move(parts)),
      files_(files),
      memory_(idx(options.num_slots), direct_bytes_for(largest(parts_))),
      states_(parts_.size()) {
  for (std::size_t slot = 0; slot < idx(options.num_slots); ++slot) free_.push_back(slot);
  std::vector<int> matrices;
  for (int part = 0; part < num_parts(); ++part) {
    const auto matrix = idx(parts_[idx(part)].matrix);
    if (matrix == matrices.size()) {
      matrices.push_back(static_cast<int>(matrix));
      first_.push_back(part);
      count_.push_back(0);
    }
    ++count_[matrix];
  }
  index_.resize(matrices.size());
  seen_.reserve(matrices.size());
  arrange(matrices);
  readers_.start(options.num_readers, [this] { read_ahead(); });
}

WeightStream::~WeightStream() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  room_.notify_all();
  readers_.join();
}

// Before any part is read, or while none is held.
void WeightStream::arrange(std::vector<int> matrices) {
  std::vector<int> order;
  order.reserve(parts_.size());
  for (const int matrix : matrices) {
    for (int i = 0; i < count_[idx(matrix)]; ++i) order.push_back(first_[idx(matrix)] + i);
  }
  matrices_ = std::move(matrices);
  order_ = std::move(order);
  std::uint64_t at = 0;
  for (const int matrix : matrices_) {
    index_[idx(matrix)] = at;
    at += idx(count_[idx(matrix)]);
  }
  drop_before(next_);
}

// The matrices of the last pass in its order, and each of the others behind the one that it followed.
std::vector<int> WeightStream::order_as_seen() const {
  std::vector<int> order = seen_;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    if (contains(order, matrices_[i])) continue;
    const auto before = i == 0 ? order.begin() : std::find(order.begin(), order.end(), matrices_[i - 1]) + 1;
    order.insert(before, matrices_[i]);
  }
  return order;
}

void WeightStream::begin(int matrix) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (contains(seen_, matrix)) {  // another pass
    try {
      if (!is_part_of(seen_, matrices_)) {
        arrange(order_as_seen());
        next_ = 0;  // nothing that was read has its place in the new order
      }
    } catch (const std::bad_alloc&) {  // the old order is as right, but slower
    }
    seen_.clear();
  }
  seen_.push_back(matrix);  // there is room (see the constructor)
  // The nearest place of its parts after those of the matrix before.
  const std::uint64_t size = order_.size();
  const std::uint64_t after = current_ < 0 ? at_ : at_ + idx(count_[idx(current_)]);
  at_ = after + (index_[idx(matrix)] + size - after % size) % size;
  current_ = matrix;
  drop_before(at_);
  next_ = std::max(next_, at_);
  room_.notify_all();
}

void WeightStream::drop_before(std::uint64_t place) {
  for (Part& part : states_) {
    if (part.state == State::absent || part.place >= place) continue;
    if (part.state == State::reading) part.is_dropped = true;
    else release(part);
  }
}

void WeightStream::release(Part& part) {
  if (part.state == State::ready) free_.push_back(part.slot);
  part.state = State::absent;
  part.is_dropped = false;
}

const std::uint8_t* WeightStream::take(int index) noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  Part& part = states_[idx(index)];
  const auto is_there = [&] { return has_failed_ || part.state == State::ready; };
  if (!is_there()) {
    const std::uint64_t place = at_ + idx(index - first_[idx(current_)]);
    const bool will_go = part.state == State::absent || part.is_dropped;
    if (will_go && place < next_) {  // its units were given back, but it is wanted again
      next_ = place;
      room_.notify_all();
    }
    arrival_.wait(lock, is_there);
  }
  if (has_failed_) return nullptr;
  ++part.num_holders;
  return part.data;
}

void WeightStream::give_back(int index, int units) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  Part& part = states_[idx(index)];
  --part.num_holders;
  part.units_left -= units;
  if (part.num_holders > 0 || part.units_left > 0) return;
  release(part);
  room_.notify_one();
}

bool WeightStream::has_failed() const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return has_failed_;
}

std::string WeightStream::take_problem() {
  std::unique_lock<std::mutex> lock(mutex_);
  // Readers that are still busy may fail for the same reason; none begins meanwhile.
  arrival_.wait(lock, [this] { return !has_failed_ || num_reading_ == 0; });
  has_failed_ = false;
  for (Part& part : states_) {
    if (part.state == State::failed) release(part);
  }
  room_.notify_all();
  return std::exchange(problem_, {});
}

WeightStream::Counts WeightStream::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

// Whether a reader can go on with the part at next_: with no more than one pass ahead of the computation.
bool WeightStream::takes_next() const {
  if (has_failed_ || next_ >= at_ + order_.size()) return false;
  return states_[idx(part_at(next_))].state != State::absent || !free_.empty();
}

void WeightStream::read_ahead() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    room_.wait(lock, [this] { return is_ending_ || takes_next(); });
    if (is_ending_) return;
    const int index = part_at(next_);
    Part& part = states_[idx(index)];
    part.place = next_++;
    part.is_dropped = false;
    if (part.state != State::absent) continue;  // it is there, or is being read for an earlier place
    part.state = State::reading;
    part.slot = free_.back();
    free_.pop_back();
    std::uint8_t* const memory = memory_.slot(part.slot);
    ++num_reading_;
    lock.unlock();
    std::string problem;
    const std::uint8_t* const data = files_.try_read(parts_[idx(index)], memory, problem);
    lock.lock();
    --num_reading_;
    counts_.bytes_read += data != nullptr ? parts_[idx(index)].bytes : 0;
    part.data = data;
    part.units_left = parts_[idx(index)].num_units;
    part.state = State::ready;
    if (part.is_dropped) {
      release(part);
    } else if (data == nullptr) {
      release(part);
      part.state = State::failed;
      has_failed_ = true;
      problem_ = problem;
    }
    room_.notify_one();
    arrival_.notify_all();
  }
}

}  // namespace specdec
