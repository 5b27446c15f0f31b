#include "runtime/c_api/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace kiln {
namespace {

constexpr std::array<const char*, kOperands> kNames = {
    "q",          "k",           "v",           "o",           "lse",         "cu_seqlens_q", "cu_seqlens_k",
    "page_table", "seqlens_k",   "q_scale",     "k_scale",     "v_scale",     "sink",         "mask_bits",
    "k_rope",     "captured[0]", "captured[1]", "captured[2]", "captured[3]", "first_keys",   "kv_factors",
    "query_ends"};

static_assert(std::size(kiln_attention_args{}.captured) == kCaptured);

constexpr std::size_t index(Operand operand) {
  return static_cast<std::size_t>(operand);
}

constexpr bool is_written(std::size_t i) {
  return i == index(Operand::o) || i == index(Operand::lse);
}

std::array<DType, kOperands> needed_types(const Manifest& manifest) {
  std::array<DType, kOperands> types;
  types.fill(DType::f32);
  types[index(Operand::q)] = manifest.dtype;
  types[index(Operand::k)] = types[index(Operand::v)] = manifest.kv_dtype;
  types[index(Operand::o)] = manifest.out_dtype;
  types[index(Operand::k_scale)] = types[index(Operand::v_scale)] = manifest.scale_dtype();
  for (const Operand table : {Operand::cu_seqlens_q, Operand::cu_seqlens_k, Operand::page_table,
                              Operand::seqlens_k, Operand::mask_bits, Operand::first_keys}) {
    types[index(table)] = DType::i32;
  }
  if (manifest.rope) types[index(Operand::k_rope)] = manifest.rope->dtype;
  for (std::size_t i = 0; i < manifest.captured.size(); ++i)
    types[index(captured_operand(i))] = manifest.captured[i].dtype;
  return types;
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::bad_input, message);
}

/// Callers built with an earlier header have fewer members; theirs of today are 0 then.
kiln_attention_args complete(const kiln_attention_args& given) {
  if (given.size < offsetof(kiln_attention_args, k_rope)) {
    refuse(fmt::format("args.size is {}; sizeof(kiln_attention_args) is {}", given.size, sizeof given));
  }
  kiln_attention_args args{};
  std::memcpy(&args, &given, std::min(given.size, sizeof args));
  return args;
}

AttentionArgs::Window window_of(const kiln_attention_args& args) {
  return {args.window_left - 1, args.window_right - 1, args.window_chunk};
}

LaunchOptions options_of(const kiln_attention_args& args, std::uint64_t stream) {
  LaunchOptions options;
  options.stream = stream;
  if (args.launch_before < 0 || args.launch_before > 2) refuse("launch_before is not 0, 1 or 2");
  if (args.residency < 0 || args.residency > 2) refuse("residency is not 0, 1 or 2");
  options.before = static_cast<LaunchBefore>(args.launch_before);
  options.residency = static_cast<Residency>(args.residency);
  options.max_blocks = args.max_blocks;
  return options;
}

void check_report(const std::shared_ptr<const EmulationReport>& report) {
  if (!report || (report->findings.empty() && report->completed)) return;
  throw Error(ErrorCode::device, report->findings.empty()
                                     ? "the emulated device stopped the kernel"
                                     : "emulated device: " + report->findings[0].message);
}

}  // namespace

DlpackLauncher::DlpackLauncher(Runtime& runtime, std::shared_ptr<Kernel> kernel)
    : runtime_(runtime),
      kernel_(std::move(kernel)),
      preparing_(dynamic_cast<PreparingKernel*>(kernel_.get())),
      needed_(needed_types(kernel_->manifest())),
      takes_v_(kernel_->manifest().takes("v")),
      selector_(runtime.device().selector) {
  const std::size_t colon = selector_.find(':');
  if (colon != std::string::npos) device_id_ = std::stoi(selector_.substr(colon + 1));
  if (selector_.starts_with("cuda")) device_type_ = kDLCUDA;
  if (selector_.starts_with("hip")) device_type_ = kDLROCM;
}

void DlpackLauncher::check_place(const DLTensor& tensor, const char* name, bool host) const {
  const bool own_host = is_on_host(tensor);
  if (own_host != host) {
    refuse(fmt::format("{} is in {} memory, q in {} memory; all tensors on the device, or all in host memory",
                       name, own_host ? "host" : "device", host ? "host" : "device"));
  }
  constexpr std::int32_t kManaged = 13;  // CUDA's, of a later DLPack than the header this is built with
  const std::int32_t type = tensor.device.device_type;
  const bool right = type == device_type_ || (type == kManaged && device_type_ == kDLCUDA);
  if (host || (right && tensor.device.device_id == device_id_)) return;
  const char* kind = type == kDLCUDA || type == kManaged ? "cuda"
                     : type == kDLROCM                   ? "hip"
                                                         : "another device";
  refuse(fmt::format("{} is on {}:{}; {} is needed", name, kind, tensor.device.device_id,
                     device_type_ == 0 ? "host memory (the runtime's device is emulated)" : selector_));
}

AttentionArgs DlpackLauncher::convert(const Tensors& tensors, const kiln_attention_args& args,
                                      Staging* staging) const {
  AttentionArgs problem;
  const auto one = [&](Operand operand) {
    const std::size_t i = index(operand);
    Tensor tensor = tensor_from_dlpack(*tensors[i], kNames[i], needed_[i]);
    if (staging != nullptr) staging->stage(tensor, kNames[i], is_written(i));
    return tensor;
  };
  const auto optional = [&](Operand operand) {
    return tensors[index(operand)] == nullptr ? std::nullopt : std::optional(one(operand));
  };
  problem.q = one(Operand::q);
  problem.k = one(Operand::k);
  if (takes_v_) problem.v = one(Operand::v);  // else in K's rows
  problem.o = one(Operand::o);
  problem.lse = optional(Operand::lse);
  problem.cu_seqlens_q = optional(Operand::cu_seqlens_q);
  problem.cu_seqlens_k = optional(Operand::cu_seqlens_k);
  problem.page_table = optional(Operand::page_table);
  problem.seqlens_k = optional(Operand::seqlens_k);
  problem.q_scale = optional(Operand::q_scale);
  problem.k_scale = optional(Operand::k_scale);
  problem.v_scale = optional(Operand::v_scale);
  problem.sink = optional(Operand::sink);
  problem.mask_bits = optional(Operand::mask_bits);
  problem.k_rope = optional(Operand::k_rope);
  for (std::size_t i = 0; i < kCaptured; ++i) problem.captured[i] = optional(captured_operand(i));
  problem.first_keys = optional(Operand::first_keys);
  problem.kv_factors = optional(Operand::kv_factors);
  problem.window = window_of(args);
  problem.max_seqlen_q = args.max_seqlen_q;
  problem.max_seqlen_k = args.max_seqlen_k;
  if (args.scale != nullptr) problem.scale = *args.scale;
  return problem;
}

void DlpackLauncher::launch(const kiln_attention_args& given, std::uint64_t stream) {
  const kiln_attention_args args = complete(given);
  const LaunchOptions options = options_of(args, stream);
  const Tensors tensors = {args.q,
                           args.k,
                           takes_v_ ? args.v : nullptr,
                           args.o,
                           args.lse,
                           args.cu_seqlens_q,
                           args.cu_seqlens_k,
                           args.page_table,
                           args.seqlens_k,
                           args.q_scale,
                           args.k_scale,
                           args.v_scale,
                           args.sink,
                           args.mask_bits,
                           args.k_rope,
                           args.captured[0],
                           args.captured[1],
                           args.captured[2],
                           args.captured[3],
                           args.first_keys,
                           args.kv_factors,
                           nullptr};  // query_ends: of kernels that the C interface makes none of
  for (const Operand operand : {Operand::q, Operand::k, Operand::v, Operand::o}) {
    if (tensors[index(operand)] == nullptr && (operand != Operand::v || takes_v_))
      refuse(std::string(kNames[index(operand)]) + " is NULL");
  }
  const bool host = is_on_host(*args.q);
  FlatLaunch flat;
  for (std::size_t i = 0; i < kOperands; ++i) {
    if (tensors[i] == nullptr) continue;
    const DLTensor& tensor = *tensors[i];
    check_place(tensor, kNames[i], host);
    const DType type = checked_dtype(tensor, kNames[i], needed_[i]);
    const bool shaped = tensor.ndim >= 0 && tensor.ndim <= 8 && (tensor.ndim == 0 || tensor.shape != nullptr);
    flat.addresses[i] = address_of(tensor);
    flat.known = flat.known && shaped &&
                 flat.key.add_tensor(static_cast<Operand>(i), type,
                                     {tensor.shape, static_cast<std::size_t>(tensor.ndim)}, tensor.strides,
                                     flat.addresses[i]);
  }
  std::shared_ptr<const EmulationReport> report;
  if (host) {
    Staging staging(runtime_);
    report = kernel_->launch(convert(tensors, args, &staging), options);
    check_report(report);
    staging.finish();
    return;
  }
  if (preparing_ == nullptr || !flat.known) {
    report = kernel_->launch(convert(tensors, args, nullptr), options);
  } else {
    flat.add_numbers(args.max_seqlen_q, args.max_seqlen_k, args.scale, window_of(args));
    report = preparing_->launch(
        flat, [&] { return convert(tensors, args, nullptr); }, options);
  }
  check_report(report);
}

}  // namespace kiln
