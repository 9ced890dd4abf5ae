#include "server/service.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "server/api_error.h"

namespace specdec::server {
namespace {

ServiceOptions with_metrics(ServiceOptions options) {
  if (!options.metrics) options.metrics = std::make_shared<Metrics>();
  return options;
}

}  // namespace

Service::Service(Generator& generator, int max_queue_size, ServiceOptions options)
    : generator_(generator), options_(with_metrics(std::move(options))), max_queue_size_(idx(max_queue_size)) {}

std::shared_ptr<RequestHandle> Service::submit(const Request& request, const std::function<bool()>& cancelled) {
  try {
    if (is_closed_) throw shutting_down();
    std::shared_ptr<RequestHandle> handle = generator_.submit(request, cancelled);
    remember(handle, request);
    return handle;
  } catch (const ApiError&) {
    metrics().add_rejected();
    throw;
  } catch (const QueueFull&) {
    metrics().add_rejected();
    throw;
  }
}

std::vector<float> Service::embed(const std::vector<Token>& tokens, const std::function<bool()>& cancelled) {
  if (is_closed_) throw shutting_down();
  return generator_.embed(tokens, cancelled);
}

void Service::remember(const std::shared_ptr<RequestHandle>& handle, const Request& request) {
  auto shown = std::make_shared<Request>(request);
  shown->prompt.clear();
  shown->prompt_tokens.clear();
  shown->pictures.clear();
  shown->picture_files.clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto is_over = [](const Submitted& one) { return one.handle.expired(); };
  submitted_.erase(std::remove_if(submitted_.begin(), submitted_.end(), is_over), submitted_.end());
  submitted_.push_back({handle, std::move(shown)});
}

std::map<int, Service::Running> Service::running() {
  std::map<int, Running> running;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Submitted& one : submitted_) {
    const std::shared_ptr<const RequestHandle> handle = one.handle.lock();
    if (!handle || handle->is_done()) continue;
    const int slot = handle->prompt_progress().slot;
    if (slot >= 0) running[slot] = {handle, one.request};
  }
  return running;
}

std::size_t Service::num_processing() const { return std::min(num_unfinished(), num_slots()); }

}  // namespace specdec::server
