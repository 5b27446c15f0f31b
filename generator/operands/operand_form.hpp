// How an operand's sequences lie in memory: what schedules, launches and problems ask of a kind. A kind is one line in
// registry.cpp. A new way to find key rows is a value of OperandForm::Keys: each system that finds rows then has a case
// of it (MHAOperand of generator/systems and of sm90, StreamK, scales).
#pragma once

#include <span>
#include <string_view>

#include <kiln/config.hpp>

namespace kiln {

struct OperandForm {
  enum class Keys {
    by_batch,  ///< [batch, seqlen_k, heads, depth]
    by_start,  ///< rows of all sequences end to end, with cu_seqlens_k: [total_k, heads, depth]
    in_pages,  ///< pages of page_size rows, of which a table has a sequence's: [pages, page_size, heads, depth]
    in_block  ///< one block a sequence, as a table with one entry says: [blocks, rows, heads, depth]
  };

  OperandKind kind;
  std::string_view name;  ///< in the config
  bool ragged_q;          ///< query rows of all sequences end to end, with cu_seqlens_q; else a batch axis
  Keys keys;
  int fixed_page = 0;  ///< rows of a page where the kind says; 0: page_size does

  bool batch_keys() const { return keys == Keys::by_batch; }
  bool ragged_k() const { return keys == Keys::by_start; }
  bool pages() const { return keys == Keys::in_pages; }
  bool block() const { return keys == Keys::in_block; }
  /// Key rows are found through a table.
  bool table() const { return pages() || block(); }
};

/// All kinds, in the order of messages.
std::span<const OperandForm> operand_forms();
const OperandForm& operand_form(OperandKind kind);

/// Rows of a page, 0 of an operand without pages and of one whose page_size is not known yet.
int page_rows(const OperandConfig& operand);

}  // namespace kiln
