#include "python/native/kernel.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>

namespace kiln::python {
namespace {

constexpr std::array<const char*, kOperands> kNames = {
    "q",          "k",           "v",           "o",           "lse",         "cu_seqlens_q", "cu_seqlens_k",
    "page_table", "seqlens_k",   "q_scale",     "k_scale",     "v_scale",     "sink",         "mask_bits",
    "k_rope",     "captured[0]", "captured[1]", "captured[2]", "captured[3]", "first_keys",   "kv_factors",
    "query_ends"};

/// A hint by name, or by its number as the C interface has it.
int hint(const char* name, nb::handle given, std::array<std::string_view, 3> names) {
  if (given.is_none()) return 0;
  // Text that no UTF-8 stands for is no name either.
  if (std::string_view text; nb::isinstance<nb::str>(given) && nb::try_cast(given, text)) {
    const auto found = std::ranges::find(names, text);
    if (found != names.end()) return static_cast<int>(found - names.begin());
  }
  int number = 0;
  if (nb::isinstance<nb::int_>(given) && nb::try_cast(given, number) && number >= 0 && number <= 2)
    return number;
  throw Error(ErrorCode::bad_input, std::string(name) + ": " + nb::repr(given).c_str() + "; \"" +
                                        std::string(names[0]) + "\", \"" + std::string(names[1]) +
                                        "\" or \"" + std::string(names[2]) + "\" is needed");
}

constexpr const char* kLaunchDoc =
    R"(Launches the kernel: writes `o`, and `lse` where the config has it. Returns `o`.

Tensors are anything that speaks DLPack (PyTorch, CuPy, JAX, NumPy): all on the runtime's device, used in place and asynchronously,
or all in host memory, copied there and back. The last dimension must be contiguous, others may have any stride that is a multiple of
16 bytes.

    q, o          [batch, seqlen_q, heads_q, depth]; ragged and paged: [total_q, heads_q, depth]; o has ov_depth
    k, v          [batch, seqlen_k, heads_kv, depth]; ragged: [total_k, heads_kv, depth]; paged:
                  [num_pages, page_size, heads_kv, depth]; v is None where the config has v_from_k; uint8 is taken for an 8-bit type
    lse           float32 [batch, heads_q, seqlen_q]; ragged and paged: [heads_q, total_q]; natural logarithm
    cu_seqlens_q  int32 [batch + 1], first 0, last total_q: ragged and paged; with max_seqlen_q, the longest
    cu_seqlens_k  int32 [batch + 1]: ragged; with max_seqlen_k
    page_table    int32 [batch, max_pages]: paged; [batch, 1]: continuous
    seqlens_k     int32 [batch], keys of each sequence: paged; contiguous ones may have it
    q_scale, k_scale, v_scale   float32, of quantised operands, in the config's granularity and scale_dtype; uint8 is taken
                  for a type of 8 bits
    kv_factors    float32 [2], of a cache of fp4_e2m1: what all of K and all of V is multiplied by beside its scales
    sink          float32 [heads_q]
    mask_bits     int32 words [batch or 1, heads_q or 1, seqlen_q, ceil(seqlen_k / 32)], of mask "custom"
    k_rope        K's rotary columns, where the config has a tensor of their own
    captured      tensors of the score expression: a dict by name, or a sequence in the config's order; any strides
    window        (left, right, chunk), of a mask with sides given at launch: keys before and after the row's own position that it
                  sees, -1: no bound, and the length of chunks, 0: none
    first_keys    int32 [batch], of a mask with left padding: each sequence's first key
    scale         softmax scale (the config's by default)
    stream        a stream of PyTorch, CuPy or cuda-python, or a CUstream as an integer; by default the current stream of the
                  tensors' library
    launch_before what the launch before on the stream leaves alone: "any" (it may write everything), "keeps_tables" (it writes no
                  lengths and page tables of this launch), "unrelated" (nothing that this one touches)
    max_blocks    most blocks of a persistent grid; 0: no limit
    residency     "by_work", "alone" (one block a multiprocessor) or "shared", of decode kernels that have both

Raises Error (bad_input) that names the argument, what came and what is needed; device, when the driver refuses the launch.)";

nb::object call(PyKernel& self, nb::handle q, nb::handle k, nb::handle v, nb::handle o, nb::handle lse,
                nb::handle cu_seqlens_q, nb::handle cu_seqlens_k, nb::handle page_table, nb::handle seqlens_k,
                nb::handle q_scale, nb::handle k_scale, nb::handle v_scale, nb::handle sink,
                nb::handle mask_bits, nb::handle k_rope, nb::handle captured, nb::handle window,
                nb::handle first_keys, nb::handle kv_factors, nb::handle scale, nb::handle stream,
                std::int64_t max_seqlen_q, std::int64_t max_seqlen_k, nb::handle launch_before,
                int max_blocks, nb::handle residency) {
  std::array<nb::object, kCaptured> tensors = self.captured(captured);
  self.launch(
      {q,          k,          v,          o,          lse,        cu_seqlens_q, cu_seqlens_k, page_table,
       seqlens_k,  q_scale,    k_scale,    v_scale,    sink,       mask_bits,    k_rope,       tensors[0],
       tensors[1], tensors[2], tensors[3], first_keys, kv_factors, nb::none()},
      window, scale, stream, max_seqlen_q, max_seqlen_k, launch_before, max_blocks, residency);
  return nb::borrow(o);
}

constexpr const char* kSignature =
    "(self, q, k, v, o, *, lse=None, cu_seqlens_q=None, cu_seqlens_k=None, page_table=None, seqlens_k=None, "
    "q_scale=None, "
    "k_scale=None, v_scale=None, sink=None, mask_bits=None, k_rope=None, captured=None, window=None, first_keys=None, kv_factors=None, scale: float | None = None, "
    "stream=None, "
    "max_seqlen_q: int = 0, max_seqlen_k: int = 0, launch_before: str = \"any\", max_blocks: int = 0, "
    "residency: str = \"by_work\")";

}  // namespace

std::array<nb::object, kCaptured> PyKernel::captured(nb::handle given) const {
  std::array<nb::object, kCaptured> out;
  out.fill(nb::none());
  if (given.is_none()) return out;
  const auto& wanted = manifest().captured;
  const auto refuse = [](const std::string& message) {
    throw Error(ErrorCode::bad_input, "captured: " + message);
  };
  if (nb::isinstance<nb::dict>(given)) {
    const auto tensors = nb::borrow<nb::dict>(given);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!tensors.contains(wanted[i].name.c_str())) refuse("'" + wanted[i].name + "' is missing");
      out[i] = tensors[wanted[i].name.c_str()];
    }
    if (wanted.size() < tensors.size()) {
      for (const auto& entry : tensors) {
        const nb::handle name = entry.first;
        const bool known = std::ranges::any_of(
            wanted, [&](const auto& one) { return nb::str(one.name.c_str()).equal(name); });
        if (!known) refuse(std::string(nb::repr(name).c_str()) + " is no tensor of the expression");
      }
    }
    return out;
  }
  if (!nb::isinstance<nb::sequence>(given))
    refuse("a dict of tensors by name, or a sequence of them, is needed");
  const auto tensors = nb::borrow<nb::sequence>(given);
  const std::size_t count = nb::len(tensors);
  if (count != wanted.size())
    refuse(std::to_string(count) + " tensors; the expression has " + std::to_string(wanted.size()));
  for (std::size_t i = 0; i < count; ++i) out[i] = tensors[i];
  return out;
}

const char* operand_name(std::size_t operand) {
  return kNames[operand];
}

void set_window(kiln_attention_args& args, nb::handle window) {
  std::array<std::int64_t, 3> sides{};
  if (!nb::isinstance<nb::sequence>(window) || nb::len(window) != 3 || !nb::try_cast(window[0], sides[0]) ||
      !nb::try_cast(window[1], sides[1]) || !nb::try_cast(window[2], sides[2]) || sides[0] < -1 ||
      sides[1] < -1 || sides[2] < 0)
    throw Error(ErrorCode::bad_input, std::string("window: ") + nb::repr(window).c_str() +
                                          "; (left, right, chunk) is needed, -1: no bound, chunk 0: none");
  args.window_left = sides[0] + 1;
  args.window_right = sides[1] + 1;
  args.window_chunk = sides[2];
}

void PyKernel::launch(const std::array<nb::handle, kOperands>& tensors, nb::handle window, nb::handle scale,
                      nb::handle stream, std::int64_t max_seqlen_q, std::int64_t max_seqlen_k,
                      nb::handle launch_before, int max_blocks, nb::handle residency) {
  kiln_attention_args args{};
  LaunchStream chosen(stream);
  std::array<Borrowed, kOperands> borrowed;
  std::array<DLTensor*, kOperands> views{};
  for (std::size_t i = 0; i < kOperands; ++i) {
    if (tensors[i].is_none()) continue;
    borrowed[i].borrow(kNames[i], tensors[i], chosen);
    views[i] = &borrowed[i].view();
  }
  if (!window.is_none()) set_window(args, window);
  args.max_seqlen_q = max_seqlen_q;
  args.max_seqlen_k = max_seqlen_k;
  double value = 0;
  if (!scale.is_none()) {
    value = PyFloat_AsDouble(scale.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    args.scale = &value;
  }
  args.launch_before = hint("launch_before", launch_before, {"any", "keeps_tables", "unrelated"});
  args.max_blocks = max_blocks;
  args.residency = hint("residency", residency, {"by_work", "alone", "shared"});
  launch(views, args, chosen.value());
}

void PyKernel::launch(const std::array<DLTensor*, kOperands>& views, kiln_attention_args& args,
                      std::uint64_t stream) {
  args.size = sizeof args;
  args.q = views[0];
  args.k = views[1];
  args.v = views[2];
  args.o = views[3];
  args.lse = views[4];
  args.cu_seqlens_q = views[5];
  args.cu_seqlens_k = views[6];
  args.page_table = views[7];
  args.seqlens_k = views[8];
  args.q_scale = views[9];
  args.k_scale = views[10];
  args.v_scale = views[11];
  args.sink = views[12];
  args.mask_bits = views[13];
  args.k_rope = views[14];
  for (std::size_t i = 0; i < kCaptured; ++i) args.captured[i] = views[15 + i];
  args.first_keys = views[15 + kCaptured];
  args.kv_factors = views[16 + kCaptured];
  // Launches on a device return at once; those of host tensors run to their end.
  if (args.q != nullptr && has_streams(args.q->device)) {
    launcher_.launch(args, stream);
  } else {
    const nb::gil_scoped_release others_may_run;
    launcher_.launch(args, stream);
  }
}

void bind_kernel(nb::module_& module) {
  using namespace nb::literals;
  const std::string launch = std::string("def __call__") + kSignature,
                    method = std::string("def launch") + kSignature;
  auto none = nb::none();
  nb::class_<PyKernel>(module, "Kernel", "A loaded kernel. Call it to launch it. Made by Runtime.load.")
      .def("__call__", &call, "q"_a, "k"_a, "v"_a.none(), "o"_a, nb::kw_only(), "lse"_a = none,
           "cu_seqlens_q"_a = none, "cu_seqlens_k"_a = none, "page_table"_a = none, "seqlens_k"_a = none,
           "q_scale"_a = none, "k_scale"_a = none, "v_scale"_a = none, "sink"_a = none, "mask_bits"_a = none,
           "k_rope"_a = none, "captured"_a = none, "window"_a = none, "first_keys"_a = none,
           "kv_factors"_a = none, "scale"_a = none, "stream"_a = none, "max_seqlen_q"_a = 0,
           "max_seqlen_k"_a = 0, "launch_before"_a = none, "max_blocks"_a = 0, "residency"_a = none,
           nb::sig(launch.c_str()), kLaunchDoc)
      .def_prop_ro(
          "name", [](PyKernel& self) { return self.manifest().name; }, "The config's name.")
      .def_prop_ro(
          "manifest",
          [](PyKernel& self) {
            return nb::module_::import_("json").attr("loads")(to_json(self.manifest(), -1));
          },
          nb::sig("def manifest(self) -> dict"),
          "What the kernel is launched by: parameters, grid, types, depths.")
      .def_prop_ro(
          "cache", [](PyKernel& self) { return to_string(self.binary().cache); },
          "Where the machine code came from: \"miss\" (compiled now), \"memory\" or \"disk\".")
      .def_prop_ro(
          "compile_ms", [](PyKernel& self) { return self.binary().compile_ms; },
          "Milliseconds of the compilation that made it.")
      .def_prop_ro(
          "registers", [](PyKernel& self) { return self.binary().registers; }, "Registers of a thread.")
      .def_prop_ro(
          "spill_bytes", [](PyKernel& self) { return self.binary().spill_bytes; },
          "Bytes that the compiler spilled, loads and stores.")
      .def_prop_ro(
          "smem_bytes",
          [](PyKernel& self) { return self.manifest().smem_bytes + self.binary().static_smem_bytes; },
          "Bytes of shared memory of a block.")
      .def("__repr__", [](PyKernel& self) {
        return "<kiln.Kernel " + self.manifest().name + " for " + self.manifest().target + ">";
      });
}

}  // namespace kiln::python
