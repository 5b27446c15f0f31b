// Key table rows: meaning of the result. Operand form, mask, score modifier, sink, splits, scale.
#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "generator/config/key_makers.hpp"
#include "generator/config/masks.hpp"
#include "generator/expression/expression.hpp"
#include "generator/masks/sized.hpp"
#include "generator/modifiers/modifier.hpp"
#include "generator/operands/operand_form.hpp"

namespace kiln::keys {
namespace {

constexpr std::string_view kGranularities[] = {"per_tensor", "per_head", "per_sequence", "per_token"};
constexpr std::string_view kScaleTypes[] = {"f32", "ue8m0", "fp8_e4m3"};
constexpr std::string_view kScaleLayouts[] = {"token_major", "head_major"};
constexpr IntRange kPageRange{0, 1 << 20}, kBlockRange{1, 1024}, kBlockRead{-(1 << 30), 1 << 30},
    kLengthRange{1, 1 << 30}, kSideRange{0, (1 << 30) - 1};

/// Elements of one scale. Whole numbers out of range are left to the rules.
std::optional<int> read_block(const Json& value, const ReadContext& context) {
  const double given = value.get<double>();
  const bool whole = std::floor(given) == given && given >= kBlockRead.lo && given <= kBlockRead.hi;
  if (whole) return static_cast<int>(given);
  context.fail(value, "wants one of " + join(kGranularities) + " or a whole number of elements",
               nearest_ints(given, {1, kBlockRead.hi}));
  return std::nullopt;
}

std::optional<Quantization> read_quantization(const Json& value, const ReadContext& context) {
  static constexpr std::string_view known[] = {"granularity", "scale_dtype", "layout"};
  if (!check_members(value, known, context)) return std::nullopt;
  Quantization out;
  bool good = true;
  static constexpr std::string_view kNumber = "a number of elements";
  if (!value.contains("granularity")) {
    const std::string all = join(kGranularities) + " or " + std::string(kNumber);
    context.missing("granularity", "quantization needs granularity: " + all, all);
    good = false;
  } else if (value["granularity"].is_number()) {
    const auto block = read_block(value["granularity"], context.at("granularity"));
    out.granularity = Quantization::Granularity::per_block;
    out.block = block.value_or(0);
    good = block.has_value();
  } else {
    const auto name = read_name(value["granularity"], kGranularities, context.at("granularity"), kNumber);
    good = name.has_value();
    if (name == "per_head") out.granularity = Quantization::Granularity::per_head;
    if (name == "per_sequence") out.granularity = Quantization::Granularity::per_sequence;
    if (name == "per_token") out.granularity = Quantization::Granularity::per_token;
  }
  if (value.contains("scale_dtype")) {
    const auto name = read_name(value["scale_dtype"], kScaleTypes, context.at("scale_dtype"));
    good = good && name.has_value();
    if (name) out.scale_dtype = *dtype_from(*name);
  }
  if (value.contains("layout")) {
    const auto name = read_name(value["layout"], kScaleLayouts, context.at("layout"));
    good = good && name.has_value();
    if (name == "head_major") out.layout = Quantization::Layout::head_major;
  }
  if (!good) return std::nullopt;
  return out;
}

std::vector<std::string_view> operand_names() {
  std::vector<std::string_view> names;
  for (const OperandForm& form : operand_forms()) names.push_back(form.name);
  return names;
}

void check_page_size(const Json& value, const OperandConfig& operand, const ReadContext& context) {
  const OperandForm& form = operand_form(operand.kind);
  const int size = *operand.page_size;
  if (form.fixed_page > 0 && size != form.fixed_page) {
    context.fail(value, fmt::format("a page of {} operands has {} rows", form.name, form.fixed_page),
                 std::to_string(form.fixed_page));
  } else if ((size > 0) != form.pages()) {
    context.fail(value,
                 form.pages() ? "a paged operand needs a page of at least one token"
                              : "only a paged operand has pages: set \"kind\" to \"paged\"",
                 form.pages() ? "1" : "0");
  }
}

void read_operand(const Json& value, Config& config, const ReadContext& context) {
  static constexpr std::string_view known[] = {"kind", "page_size", "quantization"};
  if (value.is_string()) {  // "paged" for {"kind": "paged", ...}
    const std::string_view kind = nearest(value.get_ref<const std::string&>(), operand_names());
    const std::string_view size = kind == "paged" ? R"(, "page_size": 64)" : "";
    context.fail(value, "wants an object with " + join(known),
                 kind.empty() ? "" : fmt::format(R"({{"kind": "{}"{}}})", kind, size));
    return;
  }
  if (!check_members(value, known, context)) return;
  OperandConfig out;
  if (value.contains("kind")) {
    const auto name = read_name(value["kind"], operand_names(), context.at("kind"));
    if (!name) return;
    out.kind = *operand_kind_from(*name);
  }
  if (value.contains("page_size")) {
    out.page_size = read_int(value["page_size"], kPageRange, context.at("page_size"));
    if (out.page_size) check_page_size(value["page_size"], out, context.at("page_size"));
  }
  if (value.contains("quantization") && !value["quantization"].is_null()) {
    out.quantization = read_quantization(value["quantization"], context.at("quantization"));
  }
  config.operand = out;
}

Json operand_json(const OperandConfig& operand) {
  Json out{{"kind", to_string(operand.kind)}};
  if (operand.page_size) out["page_size"] = *operand.page_size;
  if (operand.quantization) {
    const Quantization& q = *operand.quantization;
    Json granularity = q.block;
    if (q.granularity != Quantization::Granularity::per_block) {
      granularity = kGranularities[static_cast<std::size_t>(q.granularity)];
    }
    out["quantization"] = {{"granularity", granularity}, {"scale_dtype", to_string(q.scale_dtype)}};
    if (q.layout == Quantization::Layout::head_major) out["quantization"]["layout"] = "head_major";
  }
  return out;
}

KeySpec operand_key() {
  const Json granularity{{"anyOf", Json::array({enum_schema(kGranularities), int_schema(kBlockRange)})}};
  const Json quantization = object_schema({{"granularity", granularity},
                                           {"scale_dtype", enum_schema(kScaleTypes)},
                                           {"layout", enum_schema(kScaleLayouts)}},
                                          {"granularity"});
  const Json schema =
      object_schema({{"kind", enum_schema(operand_names())},
                     {"page_size", int_schema(kPageRange)},
                     {"quantization", {{"anyOf", Json::array({quantization, Json{{"type", "null"}}})}}}});
  return {"operand",
          "how K and V lie in memory; default contiguous",
          kAllTargets,
          false,
          schema,
          read_operand,
          [](const Config& config) -> std::optional<Json> {
            if (config.operand) return operand_json(*config.operand);
            return std::nullopt;
          }};
}

/// One side of {"window": {...}}: a number, or "launch".
std::optional<int> read_side(const Json& value, IntRange range, const ReadContext& context) {
  if (value == "launch") return MaskConfig::kAtLaunch;
  if (value.is_string()) {
    context.fail(value, "wants a number of keys or \"launch\"", "launch");
    return std::nullopt;
  }
  return read_int(value, range, context);
}

void read_window(const Json& value, Config& config, const ReadContext& context) {
  static constexpr std::string_view known[] = {"left", "right", "chunk", "left_padding"};
  if (!check_members(value, known, context)) return;
  MaskConfig mask{MaskConfig::Kind::window};
  bool good = true;
  for (const auto& [name, side, range] :
       {std::tuple{"left", &mask.left, kSideRange}, std::tuple{"right", &mask.right, kSideRange},
        std::tuple{"chunk", &mask.chunk, kLengthRange}}) {
    if (!value.contains(name)) continue;
    const auto read = read_side(value[name], range, context.at(name));
    if (read) *side = *read;
    good = good && read;
  }
  if (value.contains("left_padding")) {
    if (value["left_padding"].is_boolean()) {
      mask.left_padding = value["left_padding"].get<bool>();
    } else {
      context.at("left_padding").fail(value["left_padding"], "wants true or false", "true");
      good = false;
    }
  }
  if (!good) return;
  // A window without sides shows every key.
  config.mask = has_sides(mask) || mask.left_padding ? mask : MaskConfig{};
}

constexpr std::string_view kMaskNames[] = {"none", "causal", "custom"};

/// {"sliding_window": 4096}
std::string sized_example(const SizedMask& mask) {
  return fmt::format(R"({{"{}": {}}})", mask.name, mask.kind == MaskConfig::Kind::chunked ? 8192 : 4096);
}

/// The name that was meant, and the masks that have a length; of a part of such a mask's name that mask alone.
std::string mask_suggestion(const Json& value) {
  if (!value.is_string()) return "";
  const std::string& text = value.get_ref<const std::string&>();
  for (const SizedMask& mask : sized_masks()) {
    if (text.size() > 3 && mask.name.find(text) != std::string_view::npos) return sized_example(mask);
  }
  const std::string near(nearest(text, kMaskNames));
  if (near.empty()) return "";
  std::string out = near;
  for (const SizedMask& mask : sized_masks()) out += ", " + sized_example(mask);
  return out;
}

/// {"sliding_window": N}, {"chunked": N}
std::string sized_forms() {
  std::string out;
  for (const SizedMask& mask : sized_masks())
    out += fmt::format(R"({}{{"{}": N}})", out.empty() ? "" : ", ", mask.name);
  return out;
}

void read_mask(const Json& value, Config& config, const ReadContext& context) {
  constexpr const auto& names = kMaskNames;
  if (!value.is_object()) {
    if (value.is_string() && sized_mask(std::string_view(value.get_ref<const std::string&>())) != nullptr) {
      const std::string name = value.get<std::string>();
      context.fail(value, name + " wants its length", "{\"" + name + "\": 4096}");
    } else if (!value.is_string() || std::find(std::begin(names), std::end(names),
                                               value.get_ref<const std::string&>()) == std::end(names)) {
      context.fail(value, "wants none, causal, custom, " + sized_forms() + " or {\"window\": {...}}",
                   mask_suggestion(value));
    } else {
      const auto& name = value.get_ref<const std::string&>();
      const MaskConfig::Kind kind = name == "none"     ? MaskConfig::Kind::none
                                    : name == "causal" ? MaskConfig::Kind::causal
                                                       : MaskConfig::Kind::custom;
      config.mask = MaskConfig{kind, 0};
    }
    return;
  }
  std::vector<std::string_view> known;
  for (const SizedMask& mask : sized_masks()) known.push_back(mask.name);
  const std::string sized_names = join(known);
  known.emplace_back("window");
  if (!check_members(value, known, context)) return;
  if (value.size() != 1) {
    context.fail(value, "wants exactly one of " + sized_names + " and window");
    return;
  }
  const std::string name = value.begin().key();
  if (name == "window") return read_window(value.begin().value(), config, context.at(name));
  const SizedMask* const sized = sized_mask(std::string_view(name));
  if (sized == nullptr) return;  // reported as unknown
  if (const auto size = read_int(value.begin().value(), kLengthRange, context.at(name)))
    config.mask = MaskConfig{sized->kind, *size};
}

Json window_json(const MaskConfig& mask) {
  Json out = Json::object();
  for (const auto& [name, side] :
       {std::pair{"left", mask.left}, std::pair{"right", mask.right}, std::pair{"chunk", mask.chunk}}) {
    if (side == MaskConfig::kAtLaunch) out[name] = "launch";
    if (side >= 0) out[name] = side;
  }
  if (mask.left_padding) out["left_padding"] = true;
  return {{"window", out}};
}

Json mask_json(const MaskConfig& mask) {
  if (const SizedMask* sized = sized_mask(mask.kind)) return {{std::string(sized->name), mask.size}};
  switch (mask.kind) {
    case MaskConfig::Kind::none:
      return "none";
    case MaskConfig::Kind::causal:
      return "causal";
    case MaskConfig::Kind::window:
      return window_json(mask);
    case MaskConfig::Kind::custom:
      return "custom";
    default:
      return "none";
  }
}

KeySpec mask_key() {
  const auto side = [](IntRange range) {
    return Json{{"anyOf", Json::array({int_schema(range), Json{{"enum", {"launch"}}}})}};
  };
  const Json window = object_schema({{"left", side(kSideRange)},
                                     {"right", side(kSideRange)},
                                     {"chunk", side(kLengthRange)},
                                     {"left_padding", Json{{"type", "boolean"}}}});
  Json forms = Json::array({Json{{"enum", {"none", "causal", "custom"}}}});
  for (const SizedMask& mask : sized_masks()) {
    const std::string name(mask.name);
    forms.push_back(object_schema({{name, int_schema(kLengthRange)}}, {name}));
  }
  forms.push_back(object_schema({{"window", window}}, {"window"}));
  const Json schema{{"anyOf", forms}};
  return {"mask",
          "which keys a query sees; default none",
          kAllTargets,
          false,
          schema,
          read_mask,
          [](const Config& config) -> std::optional<Json> {
            if (config.mask) return mask_json(*config.mask);
            return std::nullopt;
          }};
}

constexpr std::string_view kCapturedTypes[] = {"f32", "bf16", "fp16", "i32", "int8"};

/// `tensors` of an expression; nothing where it is no such object, which is reported.
std::optional<std::vector<CapturedTensor>> read_tensors(const Json& value, const ReadContext& context) {
  if (!value.is_object() || value.empty() || value.size() > expression::kMaxTensors) {
    context.fail(value, fmt::format("wants an object of one to {} names and types: {{\"bias\": \"f32\"}}",
                                    expression::kMaxTensors));
    return std::nullopt;
  }
  std::vector<CapturedTensor> out;
  for (const auto& [name, type] : value.items()) {
    if (const std::string problem = expression::name_problem(name); !problem.empty()) {
      context.fail(name, problem);
      return std::nullopt;
    }
    const auto dtype = read_name(type, kCapturedTypes, context.at(name));
    if (!dtype) return std::nullopt;
    out.push_back({name, *dtype_from(*dtype)});
  }
  return out;
}

void read_expr(const Json& object, Config& config, const ReadContext& context) {
  const Json& value = object["expr"];
  const ReadContext at = context.at("expr");
  const std::string wanted = "wants an expression over " + std::string(expression::variable_names());
  if (!value.is_string()) return at.fail(value, wanted);
  ScoreMod mod{ScoreMod::Kind::expr, 0, value.get<std::string>()};
  if (object.contains("tensors")) {
    auto tensors = read_tensors(object["tensors"], context.at("tensors"));
    if (!tensors) return;
    mod.tensors = std::move(*tensors);
  }
  const auto parsed = expression::parse(mod.expr, mod.tensors);
  if (const auto* error = std::get_if<expression::ParseError>(&parsed))
    return at.fail(value, expression::describe(*error, mod.expr));
  config.score_mod = std::move(mod);
}

void read_named_modifier(const Json& value, Config& config, const ReadContext& context) {
  std::vector<std::string_view> names{"none"};
  for (const ModifierKind& kind : modifier_kinds())
    if (kind.form == ModifierKind::Form::word) names.push_back(kind.name);
  const auto name = read_name(value, names, context);
  if (!name) return;
  config.score_mod = ScoreMod{};
  for (const ModifierKind& kind : modifier_kinds())
    if (kind.name == *name) config.score_mod->kind = kind.kind;
}

void read_score_mod(const Json& value, Config& config, const ReadContext& context) {
  if (!value.is_object()) return read_named_modifier(value, config, context);
  std::vector<std::string_view> members, numbers;
  const ModifierKind* given = nullptr;
  int forms = 0;
  for (const ModifierKind& kind : modifier_kinds()) {
    if (kind.form == ModifierKind::Form::word) continue;
    members.push_back(kind.name);
    if (kind.form == ModifierKind::Form::number) numbers.push_back(kind.name);
    if (!value.contains(kind.name)) continue;
    given = &kind;
    ++forms;
  }
  members.emplace_back("tensors");
  if (!check_members(value, members, context)) return;
  if (forms != 1 || (value.contains("tensors") && !given->is_expression())) {
    context.fail(value,
                 fmt::format("wants exactly one of {} and expr, and tensors with expr alone", join(numbers)));
    return;
  }
  if (given->is_expression()) return read_expr(value, config, context);
  const std::string name(given->name);
  if (const auto number = read_positive(value[name], context.at(name)))
    config.score_mod = ScoreMod{given->kind, *number, ""};
}

Json expr_json(const ScoreMod& mod) {
  Json out{{"expr", mod.expr}};
  for (const CapturedTensor& tensor : mod.tensors) out["tensors"][tensor.name] = to_string(tensor.dtype);
  return out;
}

Json score_mod_json(const ScoreMod& mod) {
  const ModifierKind& kind = modifier_kind(mod);
  switch (kind.form) {
    case ModifierKind::Form::number:
      return {{std::string(kind.name), mod.value}};
    case ModifierKind::Form::expression:
      return expr_json(mod);
    default:
      return std::string(kind.name);
  }
}

Json score_mod_schema() {
  const Json tensors{{"type", "object"},
                     {"minProperties", 1},
                     {"maxProperties", expression::kMaxTensors},
                     {"propertyNames", {{"pattern", "^[a-z][a-z0-9_]{0,31}$"}}},
                     {"additionalProperties", {{"enum", kCapturedTypes}}}};
  Json words = Json::array({"none"}), forms = Json::array();
  for (const ModifierKind& kind : modifier_kinds()) {
    const std::string name(kind.name);
    if (kind.form == ModifierKind::Form::word) words.push_back(name);
    if (kind.form == ModifierKind::Form::number)
      forms.push_back(object_schema({{name, {{"type", "number"}, {"exclusiveMinimum", 0}}}}, {name}));
  }
  forms.insert(forms.begin(), Json{{"enum", words}});
  forms.push_back(
      object_schema({{"expr", {{"type", "string"}, {"minLength", 1}, {"maxLength", expression::kMaxLength}}},
                     {"tensors", tensors}},
                    {"expr"}));
  return {{"anyOf", forms}};
}

KeySpec score_mod_key() {
  return {"score_mod",
          "change of the scaled scores before the mask; default none",
          kAllTargets,
          false,
          score_mod_schema(),
          read_score_mod,
          [](const Config& config) -> std::optional<Json> {
            if (config.score_mod) return score_mod_json(*config.score_mod);
            return std::nullopt;
          }};
}

KeySpec scale_key() {
  return {"scale",
          "softmax scale; default 1/sqrt(depth)",
          kAllTargets,
          false,
          {{"type", "number"}, {"exclusiveMinimum", 0}},
          [](const Json& value, Config& config, const ReadContext& context) {
            if (const auto read = read_positive(value, context)) config.scale = *read;
          },
          [](const Config& config) -> std::optional<Json> {
            if (config.scale) return Json(*config.scale);
            return std::nullopt;
          }};
}

}  // namespace

std::vector<KeySpec> semantic_keys() {
  return {
      operand_key(),
      mask_key(),
      score_mod_key(),
      bool_key("sink", &Config::sink, kAllTargets, "per-head attention sink logit; default false"),
      auto_int_key("group", &Config::group, {1, 128}, kAllTargets,
                   "query heads per KV head packed into one tile; default auto"),
      auto_int_key(
          "queries", &Config::queries, {1, 64}, kAllTargets,
          "query tokens of a sequence in decode, drafted ones too, which with `group` make the rows of a "
          "tile; others are right, too; default auto"),
      auto_int_key("split_kv", &Config::split_kv, {1, 1024}, kAllTargets, "splits of the keys; default auto"),
      bool_key("lse", &Config::lse, kAllTargets, "write the log-sum-exp; default false"),
      scale_key(),
  };
}

}  // namespace kiln::keys
