// Parameters for the scales of K and V: where they are, and what the address of a row's scale takes.
#pragma once

#include <string>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/source.hpp>

namespace kiln {

/// Pointers to the scales of K and (`own_v`) V.
void add_scale_pointers(std::vector<KernelParam>& params, bool own_v = true);

/// Strides of the scales of K and (`own_v`) V: of pages or sequences, and of heads where those of a head lie
/// together.
void add_scale_strides(std::vector<KernelParam>& params, const OperandConfig& operand, bool own_v);

/// Elements from a head's scale to the one of its next row.
std::string scale_row_stride(const OperandConfig& operand, const std::string& heads_kv);
/// Elements from the first scale of a row's heads, or of a page's, to that of head `head`.
std::string scale_of_head(const OperandConfig& operand, const std::string& name, const std::string& head);
/// Elements from the first scale of a sequence or a page to the first of the `groups` that row `row` has for
/// head `head`.
std::string scale_of_row(const OperandConfig& operand, const std::string& name, const std::string& row,
                         const std::string& head, int groups);

/// Emitted names of a sequence whose keys have scales of their own; `key` and its `page` have these names.
struct KeyNames {
  std::string batch, kv_head, k_start;
};
/// Pointer to the `groups` scales of `key`.
std::string scales_of_key(const OperandConfig& operand, const std::string& name, const KeyNames& names,
                          int groups);

}  // namespace kiln
