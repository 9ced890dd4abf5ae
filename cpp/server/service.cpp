#include "server/service.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "server/api_error.h"

namespace specdec::server {
namespace {

// For models without a template: the messages as plain text, as `specdec chat` has them.
constexpr const char* plain_template =
    "{% for message in messages %}{{ message.content }}{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}";

}  // namespace

Service::Service(Generator& generator, int max_queue_size, ServiceOptions options)
    : generator_(generator), options_(std::move(options)), max_queue_size_(static_cast<std::size_t>(max_queue_size)) {
  if (!generator_.has_chat_template()) generator_.set_chat_template(ChatTemplate(plain_template, "the template for models without one"));
  executor_ = generator_.make_executor();
}

std::shared_ptr<RequestHandle> Service::submit(std::shared_ptr<Text> text) {
  try {
    if (is_closed_) throw ApiError(503, "unavailable_error", "the server is shutting down");
    return executor_->submit(std::move(text));
  } catch (...) {
    metrics_.add_rejected();
    throw;
  }
}

std::size_t Service::num_processing() const { return std::min(num_unfinished(), num_slots()); }

}  // namespace specdec::server
