#include "net/http_exchange.hpp"

#include <utility>

namespace orrery::net {

void HttpExchange::send(HttpReply reply) {
  {
    const std::lock_guard lock(mutex_);
    if (begun_ || gone_) return;
    begun_ = finished_ = true;
    waiting_.clear();
    reply_ = std::move(reply);
  }
  wake_();
}

void HttpExchange::begin(HttpReply head, std::string probe) {
  {
    const std::lock_guard lock(mutex_);
    if (begun_ || gone_) return;
    begun_ = stream_ = true;
    reply_ = std::move(head);
    probe_ = std::move(probe);
  }
  wake_();
}

bool HttpExchange::write(std::string_view bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (gone_ || broken_ || finished_ || (begun_ && !stream_)) return false;
    broken_ = bytes.size() > kMaxWaiting - waiting_.size();
    if (!broken_) waiting_ += bytes;
  }
  wake_();
  return !is_gone();
}

void HttpExchange::finish() {
  {
    const std::lock_guard lock(mutex_);
    if (gone_ || finished_ || (begun_ && !stream_)) return;
    finished_ = true;
  }
  wake_();
}

bool HttpExchange::is_gone() const {
  const std::lock_guard lock(mutex_);
  return gone_ || broken_;
}

void HttpExchange::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      gone_callback_ = std::move(callback);
      return;
    }
  }
  callback();
}

HttpExchange::Work HttpExchange::take() {
  const std::lock_guard lock(mutex_);
  Work work;
  work.broken = broken_;
  if (!begun_) return work;
  work.head = begun_ && !taken_;
  work.stream = stream_;
  if (work.head) work.reply = std::move(reply_);
  taken_ = taken_ || work.head;
  work.bytes = std::exchange(waiting_, {});
  work.finished = finished_;
  return work;
}

void HttpExchange::set_gone() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    gone_ = true;
    waiting_.clear();
    callback = std::exchange(gone_callback_, nullptr);
  }
  if (callback) callback();
}

void HttpExchange::close() {
  std::function<void()> callback;
  const std::lock_guard lock(mutex_);
  gone_ = true;
  callback.swap(gone_callback_);
}

void HttpExchange::abandon() {
  {
    const std::lock_guard lock(mutex_);
    if ((begun_ && finished_) || gone_) return;
    broken_ = true;
  }
  wake_();
}

}  // namespace orrery::net
