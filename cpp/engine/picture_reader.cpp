#include "engine/picture_reader.h"

#include <stdexcept>
#include <utility>

#include "base/index.h"
#include "base/sha256.h"
#include "pictures/decode.h"

namespace specdec {

PictureReader::PictureReader(std::shared_ptr<const Model> target, Options options)
    : target_(std::move(target)), options_(std::move(options)) {}

void PictureReader::load() {
  if (reads_pictures()) (void)loaded();
}

std::shared_ptr<const Projector> PictureReader::loaded() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!projector_) projector_ = Projector::load(options_.projector, target_, options_.num_threads, options_.batch_size);
  return projector_;
}

Text PictureReader::read(const PictureFile& picture) {
  if (!reads_pictures()) throw std::invalid_argument(picture.name + ": " + options_.why_not);
  const std::shared_ptr<const Projector> projector = loaded();
  const std::string key = Sha256::of(picture.bytes);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
      if (kept->key != key) continue;
      kept_.splice(kept_.begin(), kept_, kept);
      return kept->text;
    }
  }
  Kept read{key, {}, 0};
  try {
    const Pixels pixels = decode_picture(picture.bytes);
    read.text = projector->read(pixels);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(picture.name + ": " + error.what());
  }
  // Rows, and the resized picture that they are made from, which has about as many numbers.
  for (const Picture& one : read.text.pictures)
    read.bytes += 2 * sizeof(float) * idx(one.num_rows) * idx(projector->row_size());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (read.bytes <= most_kept_bytes) {
    kept_.push_front(read);
    kept_bytes_ += read.bytes;
  }
  while (kept_bytes_ > most_kept_bytes) {
    kept_bytes_ -= kept_.back().bytes;
    kept_.pop_back();
  }
  return read.text;
}

}  // namespace specdec
