#include "server/service.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "server/api_error.h"

namespace specdec::server {
namespace {

// For models without a template: the messages as plain text, as `specdec chat` has them.
constexpr const char* plain_template =
    "{% for message in messages %}{{ message.content }}{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}";

}  // namespace

Service::Service(Generator& generator, int max_queue_size, ServiceOptions options)
    : generator_(generator), options_(std::move(options)), max_queue_size_(idx(max_queue_size)) {
  if (!generator_.chat().has_template()) {
    generator_.chat().set_template(ChatTemplate(plain_template, "the template for models without one"));
  }
}

std::shared_ptr<RequestHandle> Service::submit(const Request& request, const std::function<bool()>& cancelled) {
  try {
    if (is_closed_) throw ApiError(503, "unavailable_error", "the server is shutting down");
    return generator_.submit(request, cancelled);
  } catch (const ApiError&) {
    metrics_.add_rejected();
    throw;
  } catch (const QueueFull&) {
    metrics_.add_rejected();
    throw;
  }
}

std::vector<float> Service::embed(const std::vector<Token>& tokens, const std::function<bool()>& cancelled) {
  if (is_closed_) throw ApiError(503, "unavailable_error", "the server is shutting down");
  return generator_.embed(tokens, cancelled);
}

std::size_t Service::num_processing() const { return std::min(num_unfinished(), num_slots()); }

}  // namespace specdec::server
