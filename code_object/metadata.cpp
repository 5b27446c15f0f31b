// See metadata.hpp.
#include "code_object/metadata.hpp"

namespace kiln::code_object {
namespace {

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  MsgValue value(int depth = 0) {
    if (depth > 32) throw Error("code object metadata nests too deep");
    const auto tag = static_cast<unsigned>(take(1));
    if (tag <= 0x7f) return integer(static_cast<std::int64_t>(tag));
    if (tag >= 0xe0) return integer(static_cast<std::int64_t>(tag) - 256);
    if (tag <= 0x8f) return map(tag & 0xf, depth);
    if (tag <= 0x9f) return array(tag & 0xf, depth);
    if (tag <= 0xbf) return string(tag & 0x1f);
    switch (tag) {
      case 0xc0:
        return {};
      case 0xc2:
        return integer(0);
      case 0xc3:
        return integer(1);
      case 0xcc:
        return integer(static_cast<std::int64_t>(take(1)));
      case 0xcd:
        return integer(static_cast<std::int64_t>(take(2)));
      case 0xce:
        return integer(static_cast<std::int64_t>(take(4)));
      case 0xcf:
        return integer(static_cast<std::int64_t>(take(8)));
      case 0xd0:
        return integer(static_cast<std::int8_t>(take(1)));
      case 0xd1:
        return integer(static_cast<std::int16_t>(take(2)));
      case 0xd2:
        return integer(static_cast<std::int32_t>(take(4)));
      case 0xd3:
        return integer(static_cast<std::int64_t>(take(8)));
      case 0xc4:
      case 0xd9:
        return string(take(1));
      case 0xc5:
      case 0xda:
        return string(take(2));
      case 0xc6:
      case 0xdb:
        return string(take(4));
      case 0xdc:
        return array(take(2), depth);
      case 0xdd:
        return array(take(4), depth);
      case 0xde:
        return map(take(2), depth);
      case 0xdf:
        return map(take(4), depth);
      default:
        throw Error("code object metadata holds an unexpected type (tag " + std::to_string(tag) + ")");
    }
  }

 private:
  std::uint64_t take(std::size_t n) {
    if (bytes_.size() - at_ < n) throw Error("code object metadata ends early");
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < n; ++i) v = v << 8 | static_cast<std::uint64_t>(bytes_[at_++]);
    return v;
  }
  static MsgValue integer(std::int64_t v) {
    MsgValue out;
    out.kind = MsgValue::Kind::integer;
    out.integer = v;
    return out;
  }
  MsgValue string(std::uint64_t n) {
    if (bytes_.size() - at_ < n) throw Error("code object metadata ends early");
    MsgValue out;
    out.kind = MsgValue::Kind::string;
    out.string.assign(reinterpret_cast<const char*>(bytes_.data()) + at_, n);
    at_ += n;
    return out;
  }
  MsgValue array(std::uint64_t n, int depth) {
    MsgValue out;
    out.kind = MsgValue::Kind::array;
    for (std::uint64_t i = 0; i < n; ++i) out.array.push_back(value(depth + 1));
    return out;
  }
  MsgValue map(std::uint64_t n, int depth) {
    MsgValue out;
    out.kind = MsgValue::Kind::map;
    for (std::uint64_t i = 0; i < n; ++i) {
      MsgValue key = value(depth + 1);
      out.map[key.string] = value(depth + 1);
    }
    return out;
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

const MsgValue& MsgValue::operator[](const std::string& key) const {
  static const MsgValue nil;
  const auto it = map.find(key);
  return it == map.end() ? nil : it->second;
}

MsgValue parse_msgpack(std::span<const std::byte> bytes) {
  return Reader(bytes).value();
}

}  // namespace kiln::code_object
