// A projector: the encoder, in a file beside a model's, that makes rows of the model's embedding of a picture
// (llama.cpp's tools/mtmd). It turns pixels into the part of a text that stands for them: marks of the model's own, and
// one picture or, where a model reads tiles, several.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "llama/model.h"
#include "pictures/pixels.h"
#include "speculative/text.h"

struct mtmd_context;
struct mtmd_input_chunk;

namespace specdec {

class Projector : public std::enable_shared_from_this<Projector> {
 public:
  // batch_size: tokens of the target's passes. Throws ModelError: not a projector, one of another model, one without an
  // encoder of pictures. Runs on the CPU.
  static std::shared_ptr<Projector> load(const std::string& path, const std::shared_ptr<const Model>& target,
                                         int num_threads, int batch_size);
  ~Projector();
  Projector(const Projector&) = delete;
  Projector& operator=(const Projector&) = delete;

  const std::string& path() const { return path_; }
  int row_size() const;  // numbers of a row
  // Resizes and cuts the pixels, which takes far less time than encoding them; on any thread. Throws
  // std::invalid_argument for a picture that cannot be brought into a size that the projector reads.
  Text read(const Pixels& pixels) const;

 private:
  class Rows;
  Projector(std::string path, std::shared_ptr<const Model> target, int num_threads, int batch_size);
  [[noreturn]] void fail(const std::string& error) const;
  std::vector<float> encode(const mtmd_input_chunk* chunk) const;

  struct Free {
    void operator()(mtmd_context* context) const;
  };
  const std::string path_;
  const std::string fingerprint_;
  const std::shared_ptr<const Model> target_;
  const int batch_size_;
  mutable std::mutex encoding_;
  std::unique_ptr<mtmd_context, Free> context_;
};

}  // namespace specdec
