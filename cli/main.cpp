// Entry point of the kiln command.
#include <cstdio>

int main() {
  std::fputs("kiln: no commands yet\n", stderr);
  return 2;
}
