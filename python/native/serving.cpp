// Paged KV caches of the Python package: which pages belong to which sequence, new rows, plans of decode
// launches.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <list>

#include <kiln/decode_plan.hpp>
#include <kiln/kv_cache.hpp>

#include "python/native/kernel.hpp"
#include "runtime/support/memory.hpp"

namespace kiln::python {
namespace {

using Sequence = PageAllocator::Sequence;

nb::list copies_list(const std::vector<PageCopy>& copies) {
  nb::list list;
  for (const PageCopy& copy : copies) list.append(nb::make_tuple(copy.from, copy.to, copy.rows));
  return list;
}

/// One tensor of append_kv, staged where it is in host memory.
class AppendTensors {
 public:
  AppendTensors(Runtime& runtime, LaunchStream& stream) : staging_(runtime), stream_(stream) {}
  std::optional<Tensor> operator()(const char* name, nb::handle tensor, DType needed, bool written) {
    if (tensor.is_none()) return std::nullopt;
    borrowed_.emplace_back();
    borrowed_.back().borrow(name, tensor, stream_);
    const DLTensor& view = borrowed_.back().view();
    Tensor result = tensor_from_dlpack(view, name, needed);
    if (is_on_host(view)) {
      staging_.stage(result, name, written);
      staged_ = true;
    }
    return result;
  }
  void finish() {
    if (staged_) staging_.finish();
  }

 private:
  Staging staging_;
  LaunchStream& stream_;
  std::list<Borrowed> borrowed_;
  bool staged_ = false;
};

Tensor required(const char* name, std::optional<Tensor> tensor) {
  if (!tensor) throw Error(ErrorCode::bad_input, std::string(name) + ": None; a tensor is needed");
  return *tensor;
}

void append(PyKernel& self, nb::handle new_k, nb::handle new_v, nb::handle k, nb::handle v,
            nb::handle page_table, nb::handle seqlens_k, nb::handle cu_seqlens_q, std::int64_t max_rows,
            nb::handle k_scale, nb::handle v_scale, nb::handle kv_factors, nb::handle k_rope,
            nb::handle rotary_cos, nb::handle rotary_sin, nb::handle rotary_seqlens, nb::handle stream) {
  LaunchStream chosen(stream);
  AppendTensors use(self.runtime(), chosen);
  const Manifest& manifest = self.manifest();
  const DType rope = manifest.rope ? manifest.rope->dtype : manifest.dtype;
  AppendArgs args;
  args.new_k = required("new_k", use("new_k", new_k, manifest.dtype, false));
  if (const auto tensor = use("new_v", new_v, manifest.dtype, false)) args.new_v = *tensor;
  args.k = required("k", use("k", k, manifest.kv_dtype, true));
  if (const auto tensor = use("v", v, manifest.kv_dtype, true)) args.v = *tensor;
  args.page_table = use("page_table", page_table, DType::i32, false);
  args.seqlens_k = use("seqlens_k", seqlens_k, DType::i32, false);
  args.cu_seqlens_q = use("cu_seqlens_q", cu_seqlens_q, DType::i32, false);
  args.k_scale = use("k_scale", k_scale, manifest.scale_dtype(), true);
  args.v_scale = use("v_scale", v_scale, manifest.scale_dtype(), true);
  args.kv_factors = use("kv_factors", kv_factors, DType::f32, false);
  args.k_rope = use("k_rope", k_rope, rope, true);
  args.rotary_cos = use("rotary_cos", rotary_cos, manifest.dtype, false);
  args.rotary_sin = use("rotary_sin", rotary_sin, manifest.dtype, false);
  args.rotary_seqlens = use("rotary_seqlens", rotary_seqlens, DType::i32, false);
  args.max_rows = max_rows;
  LaunchOptions options;
  options.stream = chosen.value();
  const auto report = append_kv(self.kernel(), args, options);
  if (report && (!report->findings.empty() || !report->completed)) {
    throw Error(ErrorCode::device, report->findings.empty()
                                       ? "the emulated device stopped the kernel"
                                       : "emulated device: " + report->findings[0].message);
  }
  use.finish();
}

nb::dict decode_plan(PyKernel& kernel, std::int64_t heads_q, std::int64_t heads_kv,
                     const std::vector<std::int64_t>& lengths_q, const std::vector<std::int64_t>& lengths_k,
                     std::int64_t max_seqlen_k, std::int64_t max_blocks, int num_sms) {
  DecodeShape shape;
  shape.heads_q = heads_q;
  shape.heads_kv = heads_kv;
  shape.lengths_q = lengths_q;
  shape.lengths_k = lengths_k;
  shape.max_seqlen_k = max_seqlen_k;
  shape.max_blocks = max_blocks;
  if (num_sms <= 0) num_sms = kernel.runtime().device().num_sms;
  // A dictionary of seven integers a run, and the run itself.
  constexpr std::uint64_t kRunBytes = sizeof(DecodeRun) + 700;
  const DecodePlan size = size_decode(kernel.manifest(), shape, num_sms);
  const auto most = static_cast<std::uint64_t>(size.items / size.team_heads + size.teams);
  require_memory(most * kRunBytes, "a decode plan of " + std::to_string(most) + " runs as Python objects");
  const DecodePlan plan = plan_decode(kernel.manifest(), shape, num_sms);
  nb::list runs;
  for (const DecodeRun& run : plan.runs) {
    nb::dict one;
    one["team"] = run.team;
    one["batch"] = run.batch;
    one["slot"] = run.slot;
    one["tile_begin"] = run.tile_begin;
    one["tile_end"] = run.tile_end;
    one["part"] = run.part;
    one["parts"] = run.parts;
    runs.append(one);
  }
  nb::dict out;
  out["blocks"] = plan.blocks;
  out["team_heads"] = plan.team_heads;
  out["teams"] = plan.teams;
  out["items"] = plan.items;
  out["workspace_bytes"] = plan.workspace_bytes;
  out["tiles"] = plan.tiles;
  out["imbalance"] = plan.imbalance();
  out["runs"] = runs;
  return out;
}

}  // namespace

void bind_serving(nb::module_& module) {
  using namespace nb::literals;
  auto none = nb::none();
  module.def("append", &append, "kernel"_a, "new_k"_a, "new_v"_a.none(), "k"_a, "v"_a.none(), nb::kw_only(),
             "page_table"_a, "seqlens_k"_a, "cu_seqlens_q"_a, "max_rows"_a, "k_scale"_a = none,
             "v_scale"_a = none, "kv_factors"_a = none, "k_rope"_a = none, "rotary_cos"_a = none,
             "rotary_sin"_a = none, "rotary_seqlens"_a = none, "stream"_a = none);
  module.def("decode_plan", &decode_plan, "kernel"_a, "heads_q"_a, "heads_kv"_a, "lengths_q"_a, "lengths_k"_a,
             "max_seqlen_k"_a = 0, "max_blocks"_a = 0, "num_sms"_a = 0);
  nb::class_<PageAllocator>(module, "PageAllocator",
                            R"(Which pages of a paged KV cache belong to which sequence, on the host.

Pages are shared between sequences with a common prefix and copied before one of the owners writes to them. The pool itself is the
caller's memory, [num_pages, page_size, heads_kv, depth] for each of K and V. Not thread-safe: one allocator belongs to one scheduler.)")
      .def(nb::init<std::int64_t, std::int64_t>(), "num_pages"_a, "page_size"_a)
      .def_prop_ro("num_pages", &PageAllocator::num_pages, "Pages of the pool.")
      .def_prop_ro("page_size", &PageAllocator::page_size, "Tokens of a page.")
      .def_prop_ro("free_pages", &PageAllocator::free_pages, "Pages that no sequence holds.")
      .def("create", &PageAllocator::create, "A sequence without tokens: its number.")
      .def("fork", &PageAllocator::fork, "parent"_a, "tokens"_a,
           "A sequence whose first `tokens` tokens are those of `parent`, on the same pages.")
      .def("release", &PageAllocator::release, "sequence"_a, "Frees the pages that no other sequence holds.")
      .def(
          "append",
          [](PageAllocator& self, Sequence sequence, std::int64_t tokens) {
            return copies_list(self.append(sequence, tokens));
          },
          "sequence"_a, "tokens"_a,
          nb::sig("def append(self, sequence: int, tokens: int) -> list[tuple[int, int, int]]"),
          "Room for `tokens` more. Returns the pages to copy first, (from, to, rows). Raises Error "
          "(bad_input) when the pool is "
          "too full; then nothing has changed.")
      .def("truncate", &PageAllocator::truncate, "sequence"_a, "tokens"_a,
           "Drops tokens at the end: rejected speculation.")
      .def("pages_needed", &PageAllocator::pages_needed, "sequence"_a, "tokens"_a,
           "Pages that append would take.")
      .def("length", &PageAllocator::length, "sequence"_a, "Tokens of a sequence.")
      .def(
          "pages",
          [](const PageAllocator& self, Sequence sequence) {
            const auto pages = self.pages(sequence);
            return std::vector<std::int32_t>(pages.begin(), pages.end());
          },
          "sequence"_a, "Pages of a sequence, in order: a row of the page table.")
      .def(
          "create_with_prefix",
          [](PageAllocator& self, const std::vector<std::int64_t>& hashes, std::int64_t tokens_per_hash) {
            return self.create_with_prefix(hashes, tokens_per_hash);
          },
          "hashes"_a, "tokens_per_hash"_a,
          "A sequence that shares the tokens at the start of `hashes` that some live sequence has published.")
      .def(
          "publish",
          [](PageAllocator& self, Sequence sequence, const std::vector<std::int64_t>& hashes,
             std::int64_t tokens_per_hash) { self.publish(sequence, hashes, tokens_per_hash); },
          "sequence"_a, "hashes"_a, "tokens_per_hash"_a,
          "Remembers that the tokens of `sequence` are those of `hashes`, one for each `tokens_per_hash` "
          "tokens.");
}

}  // namespace kiln::python
