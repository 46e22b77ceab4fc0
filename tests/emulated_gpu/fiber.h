// Fiber: a run of a program with a stack of its own, which is entered and left at will by one thread.
#pragma once

#include <cstddef>

namespace emulated {

class Program {
 public:
  virtual void run() = 0;

 protected:
  ~Program() = default;
};

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // What the next enter() begins. The one before has returned.
  void start(Program* program);
  // Until it leaves or returns.
  void enter();
  // Inside of it: back to enter().
  void leave();

 private:
  static void begin(Fiber* fiber);

  std::byte* stack_;
  void* own_place_ = nullptr;  // where it goes on
  void* callers_place_ = nullptr;
  Program* program_ = nullptr;
  const void* callers_stack_ = nullptr;  // for the address sanitizer
  std::size_t callers_stack_bytes_ = 0;
  void* callers_fake_ = nullptr;
  void* own_fake_ = nullptr;
};

}  // namespace emulated
