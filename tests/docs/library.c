/* Frame of the block in docs/library.md. */
#include <kiln/kiln.h>
#include <stdio.h>

void frame(DLTensor q, DLTensor k, DLTensor v, DLTensor o);

void frame(DLTensor q, DLTensor k, DLTensor v, DLTensor o) {
BLOCK
}
