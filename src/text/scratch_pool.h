// Memory that an encoding call needs, lent to one call at a time: as many exist as calls ever ran at once.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace zt::text {

template <typename Scratch>
class ScratchPool {
 public:
  class Loan {
   public:
    explicit Loan(ScratchPool* owner) : owner_(owner) {
      const std::lock_guard lock(owner_->mutex_);
      if (owner_->free_.empty()) owner_->free_.push_back(std::make_unique<Scratch>());
      scratch_ = std::move(owner_->free_.back());
      owner_->free_.pop_back();
    }
    ~Loan() {
      const std::lock_guard lock(owner_->mutex_);
      owner_->free_.push_back(std::move(scratch_));
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    Scratch* get() { return scratch_.get(); }

   private:
    ScratchPool* owner_;
    std::unique_ptr<Scratch> scratch_;
  };

  Loan lend() { return Loan(this); }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_;
};

}  // namespace zt::text
