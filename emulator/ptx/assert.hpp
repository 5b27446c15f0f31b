// assert of device code: a trap that says what failed.
#pragma once

#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {

/// A call of __assertfail; op.a, op.b and op.c are the frame offsets of the condition's text, the file and the line.
void run_assertfail(Warp& w, const Op& op);

}  // namespace kiln::emulator::ptx
