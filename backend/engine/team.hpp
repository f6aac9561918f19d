// Threads that go through windows together. Each has a range of tasks of its own and, when it is through, takes from the others': a
// thread that the operating system does not run keeps nobody waiting. One of them decides between windows what comes next.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace gtsim {

class Team {
 public:
  explicit Team(std::size_t threads) : size_(threads), ranges_(std::make_unique<Range[]>(threads)) {}

  // Window after window, run `work(thread, task)` for all tasks, on any thread in any order. Then `next()`, on the calling thread,
  // says how the tasks of the next window are divided: [threads + 1] first tasks; empty to stop. Throws what either throws,
  // after all threads have stopped.
  template <typename Work, typename Next>
  void run(Work&& work, Next&& next) {
    std::vector<std::thread> others;
    for (std::size_t thread = 1; thread < size_; ++thread)
      others.emplace_back([&, thread] {
        for (std::uint32_t seen = 0; await(seen);) {
          seen = window_.load(std::memory_order_acquire);
          claim(thread, work);
        }
      });
    for (;;) {
      try {
        if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(error_);
        const std::vector<std::size_t>& first = next();
        if (first.empty()) break;
        const std::size_t tasks = first.back();
        done_.store(0, std::memory_order_relaxed);
        for (std::size_t t = 0; t < size_; ++t)
          ranges_[t].next.store(static_cast<std::uint64_t>(first[t + 1]) << 32 | first[t], std::memory_order_release);
        if (size_ > 1) start();
        claim(0, work);
        for (std::size_t done = done_.load(std::memory_order_acquire); done < tasks; done = done_.load(std::memory_order_acquire))
          pause(done_, done);
      } catch (...) {
        stop(others);
        throw;
      }
    }
    stop(others);
  }

 private:
  // The next task, and in the upper half the end of the range: both change at once.
  struct alignas(64) Range {
    std::atomic<std::uint64_t> next{0};
  };
  static constexpr int kSpins = 4000;  // a few microseconds; then the operating system is asked to wake the thread

  // Work on the thread's own tasks, then on those that others have not begun.
  template <typename Work>
  void claim(std::size_t thread, Work& work) {
    for (std::size_t i = 0; i < size_; ++i) {
      std::atomic<std::uint64_t>& range = ranges_[(thread + i) % size_].next;
      std::size_t done = 0;
      for (std::uint64_t at = range.load(std::memory_order_acquire); (at & 0xFFFFFFFF) < at >> 32;) {
        if (!range.compare_exchange_weak(at, at + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
        try {
          work(thread, static_cast<std::size_t>(at & 0xFFFFFFFF));
        } catch (...) {
          if (!failing_.exchange(true)) {
            error_ = std::current_exception();
            failed_.store(true, std::memory_order_release);
          }
        }
        ++done;
        at = range.load(std::memory_order_acquire);
      }
      if (done > 0) {
        done_.fetch_add(done, std::memory_order_acq_rel);
        if (thread != 0) done_.notify_one();
      }
    }
  }

  template <typename T>
  static void pause(const std::atomic<T>& value, T old) {
    for (int i = 0; i < kSpins; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    value.wait(old, std::memory_order_acquire);
  }

  void start() {
    window_.fetch_add(1, std::memory_order_release);
    window_.notify_all();
  }

  void stop(std::vector<std::thread>& others) {
    stop_.store(true, std::memory_order_release);
    start();
    for (std::thread& t : others) t.join();
    others.clear();
  }

  // Wait for a window other than the one that was `seen`; false if there will be none. Whoever has seen the window that `stop` begins
  // sees `stop_` too.
  bool await(std::uint32_t seen) {
    while (!stop_.load(std::memory_order_acquire)) {
      if (window_.load(std::memory_order_acquire) != seen) return true;
      pause(window_, seen);
    }
    return false;
  }

  const std::size_t size_;
  std::unique_ptr<Range[]> ranges_;
  std::atomic<std::uint32_t> window_{0};
  std::atomic<std::size_t> done_{0};
  std::atomic<bool> stop_{false}, failing_{false}, failed_{false};
  std::exception_ptr error_;
};

}  // namespace gtsim
