// Eager calls of kiln.torch that are like an earlier one, from their arguments to the launch without Python.
//
// kiln.torch chooses a kernel by what the arguments are: types, ranks, some extents, masks, numbers. That is
// written into a key here; the first call of a key goes through kiln.torch and leaves what it found under it.
// Whatever the key does not hold in its plain form (a number that is no int, a subclass of Tensor, a graph
// that is being traced, gradients) is left to kiln.torch.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <unordered_map>

#include <kiln/error.hpp>

#include "python/native/kernel.hpp"

namespace kiln::python {
namespace {

/// Tensors of a call in the order of Operand; what a call of kiln.torch never has is null.
using Given = std::array<nb::handle, kOperands>;
using Views = std::array<Borrowed, kOperands>;

constexpr std::size_t index(Operand operand) {
  return static_cast<std::size_t>(operand);
}

/// What a kernel is chosen by besides tensors, as Python has it.
struct Choices {
  nb::handle form, captured, causal, window, chunk, softcap, score_mod, splits, return_lse;
};

/// Numbers of the launch.
struct Numbers {
  std::int64_t max_seqlen_q = 0, max_seqlen_k = 0;
  int max_blocks = 0;
  std::optional<double> scale;
};

struct Found {
  nb::object owner;
  PyKernel* kernel = nullptr;  ///< of `owner`
  bool like_q = false;         ///< O has the type and the shape of q
  nb::object offsets;          ///< cu_seqlens_q where the call has none, or None
  kiln_attention_args sides{};
};

/// An int of 64 bits and no subclass of it, bool among them.
bool read_int(nb::handle given, std::int64_t& out) {
  if (PyLong_CheckExact(given.ptr()) == 0) return false;
  int overflow = 0;
  out = PyLong_AsLongLongAndOverflow(given.ptr(), &overflow);
  return overflow == 0;
}

bool read_float(nb::handle given, double& out) {
  std::int64_t whole = 0;
  if (PyFloat_CheckExact(given.ptr()) != 0) {
    out = PyFloat_AS_DOUBLE(given.ptr());
    return true;
  }
  if (!read_int(given, whole)) return false;
  out = static_cast<double>(whole);
  return static_cast<std::int64_t>(out) == whole;
}

/// Rows one after the other.
bool is_dense(const DLTensor& tensor) {
  std::int64_t stride = 1;
  for (std::int32_t i = tensor.ndim; tensor.strides != nullptr && i-- > 0;) {
    if (tensor.strides[i] != stride) return false;
    stride *= tensor.shape[i];
  }
  return true;
}

class KeyWriter {
 public:
  KeyWriter() { bytes_.reserve(256); }
  void add(std::int64_t word) { bytes_.append(reinterpret_cast<const char*>(&word), sizeof word); }
  void add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    bytes_.append(text);
  }
  bool add_bool(nb::handle given) {
    add(given.ptr() == Py_True ? 1 : 0);
    return given.ptr() == Py_True || given.ptr() == Py_False;
  }
  bool add_int(nb::handle given) {
    std::int64_t word = 0;
    if (!read_int(given, word)) return false;
    add(word);
    return true;
  }
  /// None, an int, or a tuple of two.
  bool add_window(nb::handle given) {
    add(given.is_none() ? 0 : PyTuple_CheckExact(given.ptr()) != 0 ? 2 : 1);
    if (given.is_none()) return true;
    if (PyTuple_CheckExact(given.ptr()) == 0) return add_int(given);
    return PyTuple_GET_SIZE(given.ptr()) == 2 && add_int(PyTuple_GET_ITEM(given.ptr(), 0)) &&
           add_int(PyTuple_GET_ITEM(given.ptr(), 1));
  }
  /// None or a str.
  bool add_text(nb::handle given) {
    add(given.is_none() ? 0 : 1);
    if (given.is_none()) return true;
    if (PyUnicode_CheckExact(given.ptr()) == 0) return false;
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(given.ptr(), &size);
    if (text == nullptr) {
      PyErr_Clear();
      return false;
    }
    add(std::string_view(text, static_cast<std::size_t>(size)));
    return true;
  }
  void add_type(const DLDataType& type) { add(type.code << 16 | type.bits << 8 | type.lanes); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class PyCalls {
 public:
  PyCalls(nb::object tensor, nb::object parameter, nb::object grad_enabled, nb::object modes,
          nb::object empty_like, nb::object empty_out, nb::object empty_lse)
      : tensor_(std::move(tensor)),
        parameter_(std::move(parameter)),
        grad_enabled_(std::move(grad_enabled)),
        modes_(std::move(modes)),
        empty_like_(std::move(empty_like)),
        empty_out_(std::move(empty_out)),
        empty_lse_(std::move(empty_lse)),
        requires_grad_(nb::steal(PyUnicode_InternFromString("requires_grad"))) {}

  nb::object call(Given given, const Choices& choices, nb::handle max_seqlen_q, nb::handle max_seqlen_k,
                  nb::handle max_blocks, nb::handle scale);
  void add(const nb::bytes& key, nb::object kernel, bool like_q, nb::handle sides, nb::object offsets);
  std::size_t size() const { return known_.size(); }

 private:
  static constexpr std::size_t kMost = 4096;  // windows of any size may be asked for

  bool is_plain(nb::handle tensor) const {
    const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(tensor.ptr()));
    return type == tensor_.ptr() || type == parameter_.ptr();
  }
  bool is_eager(const Given& given) const;
  bool add_tensors(KeyWriter& key, const Given& given, const Views& views, const Numbers& numbers) const;
  bool add_captured(KeyWriter& key, nb::handle captured, LaunchStream& stream) const;
  bool make_key(KeyWriter& key, const Given& given, const Choices& choices, const Numbers& numbers,
                Views& views, LaunchStream& stream) const;
  nb::object launch(const Found& found, Given& given, const Choices& choices, const Numbers& numbers,
                    Views& views, LaunchStream& stream) const;

  nb::object tensor_, parameter_, grad_enabled_, modes_, empty_like_, empty_out_, empty_lse_, requires_grad_;
  std::unordered_map<std::string, std::shared_ptr<const Found>> known_;
};

/// Plain tensors, nothing that traces them, no gradients.
bool PyCalls::is_eager(const Given& given) const {
  for (const nb::handle tensor : given) {
    if (tensor && !tensor.is_none() && !is_plain(tensor)) return false;
  }
  const nb::object modes = modes_();
  if (PyLong_CheckExact(modes.ptr()) == 0 || PyLong_AsLong(modes.ptr()) != 0) return false;
  if (grad_enabled_().ptr() == Py_False) return true;
  return std::all_of(given.begin(), given.begin() + 3, [&](nb::handle tensor) {
    const nb::object wanted = nb::steal(PyObject_GetAttr(tensor.ptr(), requires_grad_.ptr()));
    if (!wanted.is_valid()) throw nb::python_error();
    return wanted.ptr() == Py_False;
  });
}

/// What kiln.torch chooses by: which tensors there are, types, ranks, heads, depths, the rows of a page, and
/// whether query rows are few.
bool PyCalls::add_tensors(KeyWriter& key, const Given& given, const Views& views,
                          const Numbers& numbers) const {
  constexpr std::int64_t kMany = 9;  // rows from which kiln.torch takes all for the same
  const DLTensor &q = views[0].view(), &k = views[1].view(), &v = views[2].view();
  if (q.ndim < 3 || q.ndim > 4 || k.ndim < 3 || k.ndim > 4 || v.ndim < 3 || v.ndim > 4) return false;
  std::int64_t which = 0;
  for (std::size_t i = 0; i < kOperands; ++i) {
    if (i != index(Operand::o) && i != index(Operand::lse) && given[i] && !given[i].is_none())
      which |= std::int64_t{1} << i;
  }
  key.add(which);
  key.add(static_cast<std::int64_t>(q.device.device_type) << 32 | q.device.device_id);
  for (const DLTensor* tensor : {&q, &k, &v}) {
    key.add_type(tensor->dtype);
    key.add(tensor->ndim);
    key.add(tensor->shape[tensor->ndim - 2]);
    key.add(tensor->shape[tensor->ndim - 1]);
  }
  key.add(std::min(numbers.max_seqlen_q, kMany));
  key.add(q.ndim == 4 ? std::min(q.shape[1], kMany) : -1);
  const bool paged = which >> index(Operand::page_table) & 1;
  key.add(paged ? k.shape[1] : -1);
  // Offsets of one row each are kept with what was found.
  key.add(paged && (which >> index(Operand::cu_seqlens_q) & 1) == 0 ? q.shape[0] : -1);
  return true;
}

bool PyCalls::add_captured(KeyWriter& key, nb::handle captured, LaunchStream& stream) const {
  if (captured.is_none()) return true;
  if (PyDict_CheckExact(captured.ptr()) == 0) return false;
  PyObject *name = nullptr, *tensor = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(captured.ptr(), &position, &name, &tensor) != 0) {
    Borrowed borrowed;
    if (!is_plain(tensor) || !key.add_text(name)) return false;
    borrowed.borrow("captured", tensor, stream);
    const DLDataType& type = borrowed.view().dtype;
    constexpr std::uint8_t kBool = 6;  // of a later DLPack than the header; goes as bytes
    if (type.code == kBool) return false;
    key.add_type(type);
  }
  return true;
}

bool PyCalls::make_key(KeyWriter& key, const Given& given, const Choices& choices, const Numbers& numbers,
                       Views& views, LaunchStream& stream) const {
  double softcap = 0;
  const bool return_lse = choices.return_lse.ptr() == Py_True;
  if (!return_lse && choices.return_lse.ptr() != Py_False) return false;
  key.add(return_lse || !given[index(Operand::lse)].is_none() ? 1 : 0);
  if (!key.add_int(choices.form) || !key.add_bool(choices.causal) || !key.add_window(choices.window) ||
      !read_float(choices.softcap, softcap) || !key.add_int(choices.splits) ||
      !key.add_text(choices.score_mod))
    return false;
  key.add(std::bit_cast<std::int64_t>(softcap));
  key.add(choices.chunk.is_none() ? 0 : 1);
  if (!choices.chunk.is_none() && !key.add_int(choices.chunk)) return false;
  for (std::size_t i = 0; i < 3; ++i) views[i].borrow(operand_name(i), given[i], stream);
  return add_tensors(key, given, views, numbers) && add_captured(key, choices.captured, stream);
}

nb::object PyCalls::launch(const Found& found, Given& given, const Choices& choices, const Numbers& numbers,
                           Views& views, LaunchStream& stream) const {
  nb::object out = nb::borrow(given[index(Operand::o)]), lse = nb::borrow(given[index(Operand::lse)]);
  if (out.is_none()) {
    out = found.like_q && is_dense(views[0].view()) ? empty_like_(given[0]) : empty_out_(given[0], given[2]);
  }
  const bool return_lse = choices.return_lse.ptr() == Py_True;
  if (return_lse && lse.is_none()) lse = empty_lse_(given[0]);
  given[index(Operand::o)] = out;
  given[index(Operand::lse)] = lse;
  if (given[index(Operand::cu_seqlens_q)].is_none()) given[index(Operand::cu_seqlens_q)] = found.offsets;
  const std::array<nb::object, kCaptured> captured = found.kernel->captured(choices.captured);
  for (std::size_t i = 0; i < kCaptured; ++i) given[index(captured_operand(i))] = captured[i];
  std::array<DLTensor*, kOperands> used{};
  for (std::size_t i = 0; i < kOperands; ++i) {
    if (!given[i] || given[i].is_none()) continue;
    if (i > index(Operand::v)) views[i].borrow(operand_name(i), given[i], stream);
    used[i] = &views[i].view();
  }
  kiln_attention_args args = found.sides;
  args.max_seqlen_q = numbers.max_seqlen_q;
  args.max_seqlen_k = numbers.max_seqlen_k;
  args.max_blocks = numbers.max_blocks;
  if (numbers.scale) args.scale = &*numbers.scale;
  found.kernel->launch(used, args, stream.value());
  return return_lse ? nb::make_tuple(out, lse) : out;
}

nb::object PyCalls::call(Given given, const Choices& choices, nb::handle max_seqlen_q,
                         nb::handle max_seqlen_k, nb::handle max_blocks, nb::handle scale) {
  Numbers numbers;
  std::int64_t blocks = 0;
  if (!is_eager(given) || !read_int(max_seqlen_q, numbers.max_seqlen_q) ||
      !read_int(max_seqlen_k, numbers.max_seqlen_k) || !read_int(max_blocks, blocks) ||
      blocks != static_cast<int>(blocks) || (!scale.is_none() && !read_float(scale, numbers.scale.emplace())))
    return nb::none();
  numbers.max_blocks = static_cast<int>(blocks);
  Views views;
  LaunchStream stream{nb::none()};
  KeyWriter key;
  try {
    if (!make_key(key, given, choices, numbers, views, stream)) return nb::none();
  } catch (const Error&) {  // a tensor that cannot be used, which kiln.torch says in its order
    return nb::none();
  }
  const auto found = known_.find(key.bytes());
  if (found == known_.end()) return nb::bytes(key.bytes().data(), key.bytes().size());
  const std::shared_ptr<const Found> kept = found->second;
  return launch(*kept, given, choices, numbers, views, stream);
}

void PyCalls::add(const nb::bytes& key, nb::object kernel, bool like_q, nb::handle sides,
                  nb::object offsets) {
  auto found = std::make_shared<Found>();
  found->kernel = &nb::cast<PyKernel&>(kernel);
  found->owner = std::move(kernel);
  found->like_q = like_q;
  found->offsets = std::move(offsets);
  if (!sides.is_none()) set_window(found->sides, sides);
  if (known_.size() >= kMost) known_.clear();
  known_.insert_or_assign(std::string(key.c_str(), key.size()), std::move(found));
}

nb::object call_form(PyCalls& self, nb::handle form, nb::handle q, nb::handle k, nb::handle v, nb::handle out,
                     nb::handle lse, nb::handle cu_seqlens_q, nb::handle cu_seqlens_k, nb::handle page_table,
                     nb::handle seqlens_k, nb::handle sink, nb::handle mask_bits, nb::handle first_keys,
                     nb::handle captured, nb::handle causal, nb::handle window, nb::handle chunk,
                     nb::handle softcap, nb::handle score_mod, nb::handle splits, nb::handle return_lse,
                     nb::handle max_seqlen_q, nb::handle max_seqlen_k, nb::handle max_blocks,
                     nb::handle scale) {
  Given given{q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, page_table, seqlens_k};
  given[index(Operand::sink)] = sink;
  given[index(Operand::mask_bits)] = mask_bits;
  given[index(Operand::first_keys)] = first_keys;
  const Choices choices{form, captured, causal, window, chunk, softcap, score_mod, splits, return_lse};
  return self.call(given, choices, max_seqlen_q, max_seqlen_k, max_blocks, scale);
}

}  // namespace

void bind_calls(nb::module_& module) {
  const auto o = nb::arg().none();  // an object, or None
  nb::class_<PyCalls>(module, "Calls", "Eager calls of kiln.torch and the kernels found for them.")
      .def(nb::init<nb::object, nb::object, nb::object, nb::object, nb::object, nb::object, nb::object>())
      .def("__call__", &call_form, o, o, o, o, o, o, o, o, o, o, o, o, o, o, o, o, o, o, o, o, o, o, o, o, o,
           "What the call returns, launched; bytes to `add` its kernel under; or None, where it is none of "
           "those that are kept.")
      .def("add", &PyCalls::add, o, o, o, o, o)
      .def("__len__", &PyCalls::size);
}

}  // namespace kiln::python
