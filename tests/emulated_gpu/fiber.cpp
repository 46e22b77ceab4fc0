#include "emulated_gpu/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

// emulated_switch(&from, to): saves the registers that a callee keeps on this stack and goes on with another.
asm(R"(
.text
.type emulated_switch, @function
emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulated_switch, .-emulated_switch

# A fiber's first frame: the fiber's address is in r12, its function in r13.
.type emulated_first_frame, @function
emulated_first_frame:
  movq %r12, %rdi
  call *%r13
  ud2
.size emulated_first_frame, .-emulated_first_frame
)");
extern "C" void emulated_switch(void** from, void* to);
extern "C" void emulated_first_frame();

namespace emulated {
namespace {

constexpr std::size_t kStackBytes = 512 * 1024;  // of which the system gives what is touched

void leave_stack([[maybe_unused]] void** fake, [[maybe_unused]] const void* to,
                 [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(fake, to, bytes);
#endif
}
void enter_stack([[maybe_unused]] void* fake, [[maybe_unused]] const void** from,
                 [[maybe_unused]] std::size_t* bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake, from, bytes);
#endif
}

}  // namespace

Fiber::Fiber() {
  void* const memory =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  mprotect(memory, 4096, PROT_NONE);
  stack_ = static_cast<std::byte*>(memory);
}

Fiber::~Fiber() {
  munmap(stack_, kStackBytes);
}

// At the first frame's call the stack is aligned to 16 bytes.
void Fiber::start(Program* program) {
  program_ = program;
  auto** place = reinterpret_cast<void**>(stack_ + kStackBytes - 64);
  place -= 2;
  *--place = reinterpret_cast<void*>(&emulated_first_frame);
  *--place = nullptr;                                 // rbp
  *--place = nullptr;                                 // rbx
  *--place = this;                                    // r12
  *--place = reinterpret_cast<void*>(&Fiber::begin);  // r13
  *--place = nullptr;                                 // r14
  *--place = nullptr;                                 // r15
  own_place_ = place;
  own_fake_ = nullptr;
}

void Fiber::begin(Fiber* fiber) {
  enter_stack(nullptr, &fiber->callers_stack_, &fiber->callers_stack_bytes_);
  fiber->program_->run();
  leave_stack(nullptr, fiber->callers_stack_, fiber->callers_stack_bytes_);
  emulated_switch(&fiber->own_place_, fiber->callers_place_);
}

void Fiber::enter() {
  leave_stack(&callers_fake_, stack_, kStackBytes);
  emulated_switch(&callers_place_, own_place_);
  enter_stack(callers_fake_, nullptr, nullptr);
}

void Fiber::leave() {
  leave_stack(&own_fake_, callers_stack_, callers_stack_bytes_);
  emulated_switch(&own_place_, callers_place_);
  enter_stack(own_fake_, &callers_stack_, &callers_stack_bytes_);
}

}  // namespace emulated
