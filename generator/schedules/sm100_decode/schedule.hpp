// sm100_decode: split-KV decode of Blackwell. Packed query rows are the narrow side of every matrix instruction, 128 keys
// or columns of V the wide one, so few rows cost few clocks:
//
//   S' = K Q'      128 keys x rows; a thread of softmax has one key, so row maxima go through lanes and shared memory
//   P              16 bits, to shared memory: the B operand of
//   O' += V' P'    columns of V x rows, in tensor memory; rescaled where a maximum grew by more than 2^8
//
// Roles     warps 0-3: softmax, rescaling, output; 4: products; 5: tensor copies of K and V.
// Order     S'(n + 1) is issued before O' += V(n)' P(n)': softmax of one tile runs beside the products of the next.
// The keys are split by StreamK; the last block of an item adds its parts up.
#pragma once

#include <memory>

#include "generator/schedules/schedule.hpp"

namespace kiln {

std::unique_ptr<Schedule> make_sm100_decode(Config config, Violations& out);
/// Prefill of rows over 256 columns, for which sm100_prefill has no tensor memory: decode's items of 64 packed query rows,
/// each whole.
std::unique_ptr<Schedule> make_sm100_wide_prefill(Config config, Violations& out);

}  // namespace kiln
