#include "server/model_pool.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "server/api_error.h"
#include "server/http_server.h"

namespace specdec::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_looks(25);  // how often waiting requests check
constexpr std::size_t most_names = 20;                  // listed in an error

bool is_named(const std::string& own, const std::string& name) {
  return name == own || name == own + ".gguf" || name == own + ":latest";
}

}  // namespace

ModelPool::ModelPool(const std::shared_ptr<Service>& only) : options_{1, true, 0, {}, {}, only->options()} {
  Model& model = models_.emplace_back();
  model.known = {only->options().model_name, only->options().model_path};
  model.state = State::loaded;
  model.service = only;
}

ModelPool::ModelPool(std::vector<KnownModel> models, const Options& options, Loader loader)
    : options_(options), loader_(std::move(loader)) {
  for (KnownModel& known : models) models_.emplace_back().known = std::move(known);
  try {
    worker_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    throw Error(too_few_threads);
  }
}

ModelPool::~ModelPool() {
  {
    const Lock lock(mutex_);
    is_closed_ = is_ending_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

std::string ModelPool::names() const {
  std::string names;
  for (std::size_t i = 0; i < models_.size() && i < most_names; ++i)
    names += (i == 0 ? "\"" : ", \"") + models_[i].known.name + "\"";
  return names + (models_.size() > most_names ? ", ... (GET /v1/models)" : "");
}

ModelPool::Model& ModelPool::find(const std::string& name) {
  if (!has_several()) return models_.front();
  if (name.empty())
    throw ApiError(400, "invalid_request_error", "model is missing; this server has " + names(), "model");
  const auto found = std::find_if(models_.begin(), models_.end(),
                                  [&](const Model& model) { return is_named(model.known.name, name); });
  if (found != models_.end()) return *found;
  throw ApiError(404, "not_found_error", "there is no model \"" + name + "\"; this server has " + names(), "model");
}

struct ModelPool::Lease {
  ModelPool& pool;
  Model* model = nullptr;
  bool is_use = true;

  explicit Lease(ModelPool& of) : pool(of) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (model == nullptr) return;
    const Lock lock(pool.mutex_);  // the pool may end once the lock is released
    --model->num_users;
    if (is_use) model->idle_since = Clock::now();
    pool.changed_.notify_all();
  }
};

std::shared_ptr<Service> ModelPool::lease(Model& model, bool is_use) {
  if (!has_several()) return model.service;
  const auto lease = std::make_shared<Lease>(*this);
  lease->model = &model;
  lease->is_use = is_use;
  ++model.num_users;
  return {lease, model.service.get()};
}

void ModelPool::enqueue(Model& model) {
  const bool is_wanted = std::find(wanted_.begin(), wanted_.end(), &model) != wanted_.end();
  if (is_wanted || model.state == State::loading) return;
  wanted_.push_back(&model);
  changed_.notify_all();
}

std::shared_ptr<Service> ModelPool::loaded(const std::string& name) {
  const Lock lock(mutex_);
  Model& model = find(name);
  return model.state == State::loaded ? lease(model, false) : nullptr;
}

std::shared_ptr<Service> ModelPool::use(const std::string& name, const Waiting& waiting, const Keep& keep) {
  Lock lock(mutex_);
  Model& model = find(name);
  const auto is_ready = [&] { return model.state == State::loaded && !model.is_leaving; };
  if (is_ready()) {
    model.last_use = ++num_uses_;
    model.keep = keep;
    return lease(model, true);
  }
  if (!options_.loads_by_itself && model.state != State::loading) {
    throw ApiError(400, "invalid_request_error",
                   "the model " + model.known.name + " is not loaded; POST /models/load loads it", "model");
  }
  if (num_waiting_ >= options_.max_waiting) {
    throw QueueFull(std::to_string(num_waiting_) +
                    " requests are waiting for models already; try again when some have ended");
  }
  const std::uint64_t failures = model.num_failures;
  ++num_waiting_;
  ++model.num_waiting;
  const auto stop_waiting = [&] {
    --num_waiting_;
    --model.num_waiting;
    changed_.notify_all();
  };
  try {
    while (!is_ready()) {
      if (is_closed_) throw shutting_down();
      if (model.num_failures != failures)
        throw ApiError(500, "server_error", "the model " + model.known.name + " could not be loaded: " + model.problem,
                       "model");
      enqueue(model);
      changed_.wait_for(lock, between_looks);
      const LoadProgress progress = model.progress;
      lock.unlock();
      try {
        waiting(progress);
      } catch (...) {
        lock.lock();
        throw;
      }
      lock.lock();
    }
  } catch (...) {
    stop_waiting();
    throw;
  }
  stop_waiting();
  model.last_use = ++num_uses_;
  model.keep = keep;
  return lease(model, true);
}

void ModelPool::load(const std::string& name) {
  const Lock lock(mutex_);
  Model& model = find(name);
  if (is_closed_) throw shutting_down();
  if (!has_several() || (model.state == State::loaded && !model.is_leaving)) return;
  model.is_asked_for = true;
  enqueue(model);
}

void ModelPool::unload(const std::string& name) {
  const Lock lock(mutex_);
  Model& model = find(name);
  if (!has_several())
    throw invalid_request("model", "this server has one model, which stays loaded; start it with --models-dir");
  if (model.state != State::loaded) throw invalid_request("model", "the model " + model.known.name + " is not loaded");
  model.is_leaving = true;
  changed_.notify_all();
}

std::vector<ModelPool::Status> ModelPool::statuses() {
  std::vector<Status> all;
  const Lock lock(mutex_);
  for (Model& model : models_) {
    all.push_back({model.known,
                   model.state,
                   model.progress,
                   model.problem,
                   model.state == State::loaded ? lease(model, false) : nullptr,
                   {}});
    const auto end = end_of(model);
    if (end) all.back().expires_in = std::chrono::duration_cast<std::chrono::seconds>(*end - Clock::now());
  }
  return all;
}

ModelPool::Status ModelPool::status(const std::string& name) {
  const std::string known = [&] {
    const Lock lock(mutex_);
    return find(name).known.name;
  }();
  for (Status& status : statuses()) {
    if (status.model.name == known) return std::move(status);
  }
  return {};
}

std::size_t ModelPool::num_unfinished() {
  const Lock lock(mutex_);
  std::size_t count = num_waiting_;
  for (const Model& model : models_) count += model.service ? model.service->num_unfinished() : 0;
  return count;
}

std::size_t ModelPool::num_processing() {
  const Lock lock(mutex_);
  std::size_t count = 0;
  for (const Model& model : models_) count += model.service ? model.service->num_processing() : 0;
  return count;
}

void ModelPool::close_queue() {
  const Lock lock(mutex_);
  is_closed_ = true;
  for (const Model& model : models_) {
    if (model.service) model.service->close_queue();
  }
  changed_.notify_all();
}

void ModelPool::cancel_all() {
  const Lock lock(mutex_);
  is_closed_ = is_ending_ = true;
  for (const Model& model : models_) {
    if (model.service) model.service->cancel_all();
  }
  changed_.notify_all();
}

// The model to load next; null: none. Forgets models whose clients have left.
ModelPool::Model* ModelPool::next_wanted() {
  const Model* const before = wanted_.empty() ? nullptr : wanted_.front();
  const auto is_over = [](const Model* model) {
    return (model->num_waiting == 0 && !model->is_asked_for) || (model->state == State::loaded && !model->is_leaving);
  };
  wanted_.erase(std::remove_if(wanted_.begin(), wanted_.end(), is_over), wanted_.end());
  Model* const next = wanted_.empty() ? nullptr : wanted_.front();
  if (next != before) {
    first_waits_since_.reset();
    if (hurried_ != nullptr) hurried_->is_leaving = false;
    hurried_ = nullptr;
  }
  return next;
}

ModelPool::Model* ModelPool::leaving() {
  const auto may_go = [](const Model& model) { return model.is_leaving && model.num_users == 0; };
  const auto found = std::find_if(models_.begin(), models_.end(), may_go);
  return found == models_.end() ? nullptr : &*found;
}

// When the model is to be unloaded; none: not yet known, or never.
std::optional<Clock::time_point> ModelPool::end_of(const Model& model) {
  const bool is_idle = model.state == State::loaded && model.num_waiting == 0 && model.keep.has_value();
  return is_idle ? std::optional<Clock::time_point>(model.idle_since + *model.keep) : std::nullopt;
}

ModelPool::Model* ModelPool::expired() {
  const Clock::time_point now = Clock::now();
  for (Model& model : models_) {
    const std::optional<Clock::time_point> end = end_of(model);
    if (end && model.num_users == 0 && *end <= now) return &model;
  }
  return nullptr;
}

// Waits until something happens or the next model is to be unloaded.
void ModelPool::wait_for_change(Lock& lock) {
  std::optional<Clock::time_point> first;
  for (const Model& model : models_) {
    const std::optional<Clock::time_point> end = end_of(model);
    if (end && model.num_users == 0 && (!first || *end < *first)) first = end;
  }
  if (first) changed_.wait_until(lock, *first);
  else changed_.wait(lock);
}

// The least recently used model among those in use (in_use) or idle (otherwise); null if there is none.
ModelPool::Model* ModelPool::oldest(bool in_use) {
  Model* found = nullptr;
  for (Model& model : models_) {
    const bool is_used = model.num_users > 0 || model.num_waiting > 0;
    if (model.state != State::loaded || is_used != in_use || model.is_leaving) continue;
    if (found == nullptr || model.last_use < found->last_use) found = &model;
  }
  return found;
}

bool ModelPool::has_room(const Model& model) const {
  std::size_t count = 0;
  for (const Model& other : models_) count += other.state == State::loaded ? 1 : 0;
  if (count == 0) return true;
  if (options_.most > 0 && count >= options_.most) return false;
  const std::uint64_t available = loader_.available_memory();
  return available == 0 || model.memory_need.value_or(0) <= available;
}

void ModelPool::work() {
  Lock lock(mutex_);
  while (!is_ending_) {
    try {
      Model* const wanted = next_wanted();
      if (Model* const gone = leaving()) unload(lock, *gone);
      else if (Model* const old = expired()) unload(lock, *old);
      else if (wanted == nullptr) wait_for_change(lock);
      else if (wanted->state != State::unloaded || !make_room(lock, *wanted)) changed_.wait_for(lock, between_looks);
      else load(lock, *wanted);
    } catch (const std::exception&) {  // no memory: it is tried again
      if (!lock.owns_lock()) lock.lock();
      changed_.wait_for(lock, between_looks);
    }
  }
  for (Model& model : models_) {
    changed_.wait(lock, [&] { return model.num_users == 0; });
    if (model.state == State::loaded) unload(lock, model);
  }
}

// Returns false if all loaded models are in use.
bool ModelPool::make_room(Lock& lock, Model& model) {
  if (!model.memory_need) model.memory_need = memory_need(lock, model.known);
  while (!has_room(model)) {
    Model* const idle = oldest(false);
    if (idle == nullptr) {
      hurry();
      return false;
    }
    unload(lock, *idle);
  }
  return true;
}

std::uint64_t ModelPool::memory_need(Lock& lock, const KnownModel& model) const {
  lock.unlock();
  std::uint64_t need = 0;
  try {
    need = loader_.memory_need(model);
  } catch (const std::exception&) {  // the file cannot be read; loading it reports that
  }
  lock.lock();
  return need;
}

// Makes a model in use take no more requests if another model has waited for long.
void ModelPool::hurry() {
  const Clock::time_point now = Clock::now();
  if (!first_waits_since_) first_waits_since_ = now;
  const auto is_leaving = [](const Model& model) { return model.is_leaving; };
  if (now - *first_waits_since_ < options_.patience || std::any_of(models_.begin(), models_.end(), is_leaving)) return;
  hurried_ = oldest(true);
  if (hurried_ != nullptr) hurried_->is_leaving = true;
}

void ModelPool::load(Lock& lock, Model& model) {
  wanted_.erase(std::remove(wanted_.begin(), wanted_.end(), &model), wanted_.end());
  first_waits_since_.reset();
  model.state = State::loading;
  model.is_asked_for = false;
  model.memory_need.reset();  // the file may have changed by the next load
  model.progress = {"", 0.0};
  const auto progress = [this, &model](const LoadProgress& now) {
    const Lock held(mutex_);
    model.progress = now;
    return !is_ending_;
  };
  lock.unlock();
  std::shared_ptr<Service> service;
  std::string problem;
  try {
    service = loader_.load(model.known, progress);
  } catch (const std::exception& error) {
    problem = error.what();
  } catch (...) {
    problem = "an unknown C++ exception";
  }
  lock.lock();
  model.problem = problem;
  model.num_failures += service ? 0 : 1;
  model.state = service ? State::loaded : State::unloaded;
  model.last_use = ++num_uses_;
  model.keep = options_.idle_unload;
  model.idle_since = Clock::now();
  model.service = std::move(service);
  if (model.service && is_closed_) model.service->close_queue();
  changed_.notify_all();
}

void ModelPool::unload(Lock& lock, Model& model) {
  std::shared_ptr<Service> service = std::move(model.service);
  model.state = State::unloading;
  model.is_leaving = false;
  if (hurried_ == &model) hurried_ = nullptr;
  lock.unlock();
  service.reset();
  lock.lock();
  model.state = State::unloaded;
  changed_.notify_all();
}

}  // namespace specdec::server
