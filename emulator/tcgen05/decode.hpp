// What the decoders of tcgen05 share.
#pragma once

#include <initializer_list>
#include <string_view>

#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/tcgen05/unit.hpp"

namespace kiln::emulator::tcgen05 {

AddressPart address_part(ptx::Decoder& d, std::size_t operand);
/// Fails for a modifier that is not listed, or comes twice; for one that is missing; for too many or few operands.
void only(const ptx::Decoder& d, std::initializer_list<std::string_view> modifiers);
void need(const ptx::Decoder& d, std::initializer_list<std::string_view> modifiers);
void count_operands(const ptx::Decoder& d, std::size_t least, std::size_t most);
/// 1 or 2; a kernel has but one.
int group_of(const ptx::Decoder& d);
Op& emit(ptx::Decoder& d, Handler run);

void decode_product(ptx::Decoder& d);

}  // namespace kiln::emulator::tcgen05
