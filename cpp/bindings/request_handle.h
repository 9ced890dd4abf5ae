// A submitted request for Python.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/request_handle.h"
#include "platform/process.h"

// Ends its request when it is dropped: nobody could read the output any more.
class SharedRequest {
 public:
  explicit SharedRequest(std::shared_ptr<specdec::RequestHandle> handle) : handle_(std::move(handle)) {}
  ~SharedRequest();
  SharedRequest(SharedRequest&&) = default;
  SharedRequest& operator=(SharedRequest&&) = default;

  // Waits for piece `index` or the end. Ctrl-C is raised as what Python's handler made of it.
  std::optional<specdec::Piece> wait(std::size_t index) const;
  // Tells number `id` to whoever waits in take_news(), after every piece and at the end.
  void watch(std::uint64_t id) const;
  const specdec::RequestHandle& get() const { return *handle_; }
  void cancel() const { handle_->cancel(); }

 private:
  std::shared_ptr<specdec::RequestHandle> handle_;  // null: moved from
  std::uint64_t process_ = specdec::process_id();
};

void register_request_handle(pybind11::module_& m);
