# cmake -DFROM=x.cu -DTO=x.cpp -P emulate_source.cmake: CUDA C++ as C++ for an emulated GPU.
file(READ ${FROM} text)
# kernel<T><<<blocks, threads, shared, stream>>>(arguments), where no argument of a template holds a bracket.
string(REGEX REPLACE "([A-Za-z_][A-Za-z0-9_]*(<[A-Za-z0-9_:, ]*>)?)[ \n]*<<<(([^>]|>[^>])*)>>>\\("
  "::emulated::Launch(\\3).of([=](const auto&... emulated_args) { \\1(emulated_args...); }, " text "${text}")
if(text MATCHES "<<<")
  message(FATAL_ERROR "${FROM}: a launch that emulate_source.cmake does not understand")
endif()
string(REGEX REPLACE "extern __shared__ (__align__\\([0-9]+\\) )?([A-Za-z0-9_:]+) ([a-z]+)\\[\\];"
  "auto* const \\3 = reinterpret_cast<\\2*>(::emulated::shared_memory());" text "${text}")
# Without a #line, which would name this folder: compiler caches serve every checkout so.
file(WRITE ${TO} "${text}")
