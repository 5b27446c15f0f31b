// Context parallel attention of the Python package: transports, prefill and decode of one rank.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <list>

#include <kiln/context_parallel.hpp>

#include "python/native/kernel.hpp"

namespace kiln::python {
namespace {

using TransportHandle = std::shared_ptr<Transport>;

Error refused(const std::string& what) {
  return {ErrorCode::bad_input, what};
}

/// Tensors of one launch, staged where they are in host memory.
class Tensors {
 public:
  Tensors(Runtime& runtime, nb::handle stream) : staging_(runtime), stream_(stream) {}
  Tensor operator()(const char* name, nb::handle tensor, DType needed, bool written = false) {
    if (tensor.is_none()) throw refused(std::string(name) + ": None; a tensor is needed");
    borrowed_.emplace_back();
    borrowed_.back().borrow(name, tensor, stream_);
    const DLTensor& view = borrowed_.back().view();
    Tensor result = tensor_from_dlpack(view, name, needed);
    if (is_on_host(view)) staging_.stage(result, name, written), staged_ = true;
    return result;
  }
  std::optional<Tensor> optional(const char* name, nb::handle tensor, DType needed, bool written = false) {
    if (tensor.is_none()) return std::nullopt;
    return (*this)(name, tensor, needed, written);
  }
  std::uint64_t stream() const { return stream_.value(); }
  /// Host tensors: waits, and copies back what was written.
  void finish(Transport& transport) {
    if (!staged_) return;
    transport.synchronize(stream());
    staging_.finish();
  }

 private:
  Staging staging_;
  LaunchStream stream_;
  std::list<Borrowed> borrowed_;
  bool staged_ = false;
};

TransportHandle nccl_transport(int rank, int size, int device, const nb::bytes& id,
                               std::uint64_t communicator, double timeout_seconds, int max_blocks,
                               const std::string& library) {
  NcclOptions options;
  options.rank = rank, options.size = size, options.device = device;
  options.communicator = reinterpret_cast<void*>(communicator);
  options.timeout_seconds = timeout_seconds, options.max_blocks = max_blocks, options.library = library;
  if (communicator == 0) {
    if (id.size() != options.id.size()) throw refused("id: 128 bytes of nccl_id() are needed");
    std::copy_n(id.c_str(), id.size(), options.id.begin());
  }
  const nb::gil_scoped_release others_may_run;
  return make_nccl_transport(options);
}

/// The enumerator of `first`'s type that `value` names, whose names are in their order.
template <class Enum>
Enum chosen(const std::string& what, const std::string& value, const std::array<std::string, 3>& names,
            Enum first) {
  const auto found = std::find(names.begin(), names.end(), value);
  if (found == names.end())
    throw refused(what + ": '" + value + "'; '" + names[0] + "', '" + names[1] + "' or '" + names[2] +
                  "' is needed");
  return static_cast<Enum>(static_cast<int>(first) + static_cast<int>(found - names.begin()));
}

class PyPrefill {
 public:
  PyPrefill(nb::handle runtime, const std::string& config, TransportHandle transport, std::int64_t heads_q,
            std::int64_t heads_kv, const std::string& way)
      : runtime_(runtime_of(runtime)),
        transport_(std::move(transport)),
        config_(parse_config(config, "config")) {
    ContextParallelOptions options;
    options.heads_q = heads_q, options.heads_kv = heads_kv;
    options.way = chosen("way", way, {"auto", "ring", "gather"}, PrefillWay::automatic);
    prefill_.emplace(*runtime_, config_, transport_, options);
  }
  void set_batch(const std::vector<std::int64_t>& lengths) {
    const nb::gil_scoped_release others_may_run;
    prefill_->set_batch(lengths);
  }
  ContextPrefill& prefill() { return *prefill_; }
  void launch(nb::handle q, nb::handle k, nb::handle v, nb::handle o, nb::handle lse, nb::handle sink,
              nb::handle scale, nb::handle stream) {
    Tensors use(*runtime_, stream);
    const DType kv = config_.kv_dtype.value_or(config_.dtype);
    // FP8 has no type for results: BF16 then, as the planner has it.
    const DType out = config_.out_dtype.value_or(size_of(config_.dtype) == 1 ? DType::bf16 : config_.dtype);
    ContextPrefill::Args args;
    args.q = use("q", q, config_.dtype), args.k = use("k", k, kv), args.v = use("v", v, kv);
    args.o = use("o", o, out, true);
    args.lse = use.optional("lse", lse, DType::f32, true);
    args.sink = use.optional("sink", sink, DType::f32);
    if (!scale.is_none()) args.scale = nb::cast<double>(scale);
    const nb::gil_scoped_release others_may_run;
    prefill_->launch(args, use.stream());
    use.finish(*transport_);
  }

 private:
  std::shared_ptr<Runtime> runtime_;
  TransportHandle transport_;
  Config config_;
  std::optional<ContextPrefill> prefill_;
};

class PyDecode {
 public:
  PyDecode(nb::handle runtime, const std::string& config, TransportHandle transport, std::int64_t heads_q,
           std::int64_t max_rows, const std::string& result, const std::string& way)
      : runtime_(runtime_of(runtime)),
        transport_(std::move(transport)),
        config_(parse_config(config, "config")) {
    ContextDecodeOptions options;
    options.result = chosen("result", result, {"all", "heads", "queries"}, DecodeResult::all);
    options.way = chosen("way", way, {"auto", "gather", "spread"}, DecodeWay::automatic);
    decode_.emplace(*runtime_, config_, transport_, heads_q, max_rows, options);
  }
  ContextDecode& decode() { return *decode_; }
  void launch(nb::handle q, nb::handle k, nb::handle v, nb::handle o, nb::handle lse, nb::handle cu_seqlens_q,
              nb::handle cu_seqlens_k, nb::handle page_table, nb::handle seqlens_k, nb::handle q_scale,
              nb::handle k_scale, nb::handle v_scale, nb::handle sink, nb::handle query_ends,
              std::int64_t max_seqlen_q, std::int64_t max_seqlen_k, nb::handle scale, nb::handle stream) {
    Tensors use(*runtime_, stream);
    const DType kv = config_.kv_dtype.value_or(config_.dtype);
    AttentionArgs args;
    args.q = use("q", q, config_.dtype), args.k = use("k", k, kv);
    if (!v.is_none()) args.v = use("v", v, kv);
    args.o = use("o", o,
                 config_.out_dtype.value_or(size_of(config_.dtype) == 1 ? DType::bf16 : config_.dtype), true);
    args.lse = use.optional("lse", lse, DType::f32, true);
    args.cu_seqlens_q = use.optional("cu_seqlens_q", cu_seqlens_q, DType::i32);
    args.cu_seqlens_k = use.optional("cu_seqlens_k", cu_seqlens_k, DType::i32);
    args.page_table = use.optional("page_table", page_table, DType::i32);
    args.seqlens_k = use.optional("seqlens_k", seqlens_k, DType::i32);
    args.q_scale = use.optional("q_scale", q_scale, DType::f32);
    args.k_scale = use.optional("k_scale", k_scale, DType::f32);
    args.v_scale = use.optional("v_scale", v_scale, DType::f32);
    args.sink = use.optional("sink", sink, DType::f32);
    args.query_ends = use.optional("query_ends", query_ends, DType::i32);
    args.max_seqlen_q = max_seqlen_q, args.max_seqlen_k = max_seqlen_k;
    if (!scale.is_none()) args.scale = nb::cast<double>(scale);
    LaunchOptions options;
    options.stream = use.stream();
    const nb::gil_scoped_release others_may_run;
    decode_->launch(args, options);
    use.finish(*transport_);
  }

 private:
  std::shared_ptr<Runtime> runtime_;
  TransportHandle transport_;
  Config config_;
  std::optional<ContextDecode> decode_;
};

}  // namespace

void bind_parallel(nb::module_& module) {
  using namespace nb::literals;
  auto none = nb::none();
  module.def(
      "nccl_id",
      [](const std::string& library) {
        const NcclId id = make_nccl_id(library);
        return nb::bytes(id.data(), id.size());
      },
      "library"_a = "");
  module.def("nccl_transport", &nccl_transport, "rank"_a, "size"_a, "device"_a, "id"_a, "communicator"_a,
             "timeout"_a, "max_blocks"_a, "library"_a);
  nb::class_<Transport>(module, "Transport", "One rank's side of a group. Used by one thread at a time.")
      .def_prop_ro("rank", &Transport::rank)
      .def_prop_ro("size", &Transport::size)
      .def(
          "synchronize",
          [](Transport& self, nb::handle stream) {
            const std::uint64_t value = LaunchStream(stream).value();
            const nb::gil_scoped_release others_may_run;
            self.synchronize(value);
          },
          "stream"_a = none,
          "Waits for the work on `stream`, at most the timeout. Raises Error (device) where a rank failed.")
      .def("abort", &Transport::abort, "reason"_a = "", "Ends the group for all ranks.");
  nb::class_<LoopbackGroup>(module, "LoopbackGroup", "A group of threads, for the emulated device.")
      .def(nb::init<int, double>(), "size"_a, "timeout"_a = 30.0)
      .def(
          "join",
          [](LoopbackGroup& self, int rank, nb::handle runtime) -> TransportHandle {
            return self.join(rank, *runtime_of(runtime));
          },
          "rank"_a, "runtime"_a);
  nb::class_<PyPrefill>(module, "ContextPrefill")
      .def(nb::init<nb::handle, const std::string&, TransportHandle, std::int64_t, std::int64_t,
                    const std::string&>())
      .def("set_batch", &PyPrefill::set_batch)
      .def("rows", [](PyPrefill& self) { return self.prefill().rows(); })
      .def("run",
           [](PyPrefill& self, std::int64_t sequence, int which) {
             const Run run = self.prefill().run(sequence, which);
             return nb::make_tuple(run.first, run.end());
           })
      .def("way",
           [](PyPrefill& self) { return self.prefill().way() == PrefillWay::ring ? "ring" : "gather"; })
      .def("launch", &PyPrefill::launch, "q"_a, "k"_a, "v"_a, "o"_a, "lse"_a.none(), "sink"_a.none(),
           "scale"_a.none(), "stream"_a.none());
  nb::class_<PyDecode>(module, "ContextDecode")
      .def(nb::init<nb::handle, const std::string&, TransportHandle, std::int64_t, std::int64_t,
                    const std::string&, const std::string&>())
      .def("way",
           [](PyDecode& self, std::int64_t rows) {
             return self.decode().way(rows) == DecodeWay::spread ? "spread" : "gather";
           })
      .def("launch", &PyDecode::launch, "q"_a, "k"_a, "v"_a.none(), "o"_a, "lse"_a = none,
           "cu_seqlens_q"_a = none, "cu_seqlens_k"_a = none, "page_table"_a = none, "seqlens_k"_a = none,
           "q_scale"_a = none, "k_scale"_a = none, "v_scale"_a = none, "sink"_a = none, "query_ends"_a = none,
           "max_seqlen_q"_a = 0, "max_seqlen_k"_a = 0, "scale"_a = none, "stream"_a = none);
}

}  // namespace kiln::python
