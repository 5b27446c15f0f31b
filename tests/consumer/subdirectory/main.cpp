// A small use of a library of kiln, so that the project has something to build.
#include <cstdio>

#include <kiln/code_object.hpp>

int main() {
  try {
    kiln::code_object::read_kernels({});
  } catch (const kiln::code_object::Error& error) {
    std::puts(error.what());
    return 0;
  }
  return 1;
}
