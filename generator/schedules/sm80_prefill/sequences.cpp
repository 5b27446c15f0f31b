// Where a sequence's rows are in sm80_prefill.
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/common/parts.hpp"
#include "generator/schedules/sm80_prefill/parts.hpp"

namespace kiln::sm80 {
namespace {

using Kind = KernelParam::Kind;

class EqualRows final : public Sequences {
 public:
  using Sequences::Sequences;
  void add_offsets(std::vector<KernelParam>&) const override {}
  void add_lengths(std::vector<KernelParam>& params) const override {
    params.push_back({Kind::i32, "seqlen_q", {}}), params.push_back({Kind::i32, "seqlen_k", {}});
  }
  std::vector<const char*> axes() const override { return {"batch", "seq", "head"}; }
  bool ragged() const override { return false; }
  void emit_lengths(Writer&) const override {}
  std::string query_start(const char* tensor) const override {
    return fmt::format(" + batch * {}_stride_batch", tensor);
  }
  std::string key_start(const char* tensor) const override { return query_start(tensor); }
  std::string lse_row() const override { return "((long long)batch * heads_q + head) * seqlen_q + row_0"; }
};

/// Rows of Q and O between offsets.
class RaggedRows : public Sequences {
 public:
  using Sequences::Sequences;
  void add_offsets(std::vector<KernelParam>& params) const override {
    params.push_back({Kind::pointer, "cu_seqlens_q", {}}),
        params.push_back({Kind::pointer, "cu_seqlens_k", {}});
  }
  std::vector<const char*> axes() const override { return {"seq", "head"}; }
  void emit_lengths(Writer& w) const override {
    w.line("const int q_start = cu_seqlens_q[batch], k_start = cu_seqlens_k[batch];");
    w.line(
        "const int seqlen_q = cu_seqlens_q[batch + 1] - q_start, seqlen_k = cu_seqlens_k[batch + 1] - "
        "k_start;");
    emit_alignment(w);
    w.line("if (m_start >= seqlen_q) return;");
  }
  std::string query_start(const char* tensor) const override {
    return fmt::format(" + q_start * {}_stride_seq", tensor);
  }
  std::string key_start(const char* tensor) const override {
    return fmt::format(" + k_start * {}_stride_seq", tensor);
  }
  std::string lse_row() const override { return "(long long)head * total_q + q_start + row_0"; }

 protected:
  virtual void emit_alignment(Writer&) const {}
};

/// Keys that are a part of a sequence: the position of its rows among them is given.
class PartRows final : public RaggedRows {
 public:
  using RaggedRows::RaggedRows;
  void add_offsets(std::vector<KernelParam>& params) const override {
    RaggedRows::add_offsets(params);
    params.push_back({Kind::pointer, "seqlens_k", {}});
  }

 protected:
  void emit_alignment(Writer& w) const override { w.line("{}", kAlignedRows); }
};

/// K and V in pages, which their iterators look up.
class PagedRows : public RaggedRows {
 public:
  using RaggedRows::RaggedRows;
  void add_offsets(std::vector<KernelParam>& params) const override {
    for (const char* role : {"cu_seqlens_q", "seqlens_k", "page_table"})
      params.push_back({Kind::pointer, role, {}});
    for (const char* role : {"page_table_stride", "num_pages", "key_capacity"})
      params.push_back({Kind::i32, role, {}});
    for (const char* role : {"k_stride_page", "v_stride_page"}) params.push_back({Kind::i64, role, {}});
  }
  void emit_lengths(Writer& w) const override {
    w.line("const int q_start = cu_seqlens_q[batch], seqlen_q = cu_seqlens_q[batch + 1] - q_start;");
    w.line("const int seqlen_k = min(max(seqlens_k[batch], 0), key_capacity);  // what the pages hold");
    w.line("if (m_start >= seqlen_q) return;");
  }
  std::string key_start(const char*) const override { return ""; }
};

/// A sequence's K and V in one block of a pool.
class BlockRows final : public PagedRows {
 public:
  using PagedRows::PagedRows;
  void emit_lengths(Writer& w) const override {
    PagedRows::emit_lengths(w);
    w.comment("the sequence's block; one outside the pool has no rows, and reads as zeros");
    w.line("const int block = page_of(page_table, page_table_stride, num_pages, batch, 0);");
  }
  std::string key_start(const char* tensor) const override {
    return fmt::format(" + block * {}_stride_page", tensor);
  }
  std::string readable(const std::string& rows) const override { return "(block < 0 ? 0 : " + rows + ")"; }
};

}  // namespace

std::unique_ptr<Sequences> make_sequences(const PrefillPlan& p) {
  const OperandForm& form = operand_form(p.kind);
  if (form.block()) return std::make_unique<BlockRows>(p);
  if (form.table()) return std::make_unique<PagedRows>(p);
  if (p.part) return std::make_unique<PartRows>(p);
  if (p.ragged) return std::make_unique<RaggedRows>(p);
  return std::make_unique<EqualRows>(p);
}

}  // namespace kiln::sm80
