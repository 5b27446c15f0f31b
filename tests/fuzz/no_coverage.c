// What instrumented code calls at every edge, in programs that do not count them (g++; tests/fuzz/coverage.cpp has the other one).
void __sanitizer_cov_trace_pc(void);
__attribute__((weak)) void __sanitizer_cov_trace_pc(void) {}
