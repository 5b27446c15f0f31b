// Loops that pay for wide vectors are compiled for several x86-64 levels and chosen at load time, so one
// binary runs anywhere.
#pragma once

// Function clones need ifunc: resolvers run before the start-up of the address and thread sanitizers, which they call.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define KILN_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KILN_MULTIVERSION
#endif
