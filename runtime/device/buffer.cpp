// Memory of a device with an owner: every access is checked against the size before the device sees it.
#include <kiln/runtime.hpp>

#include <fmt/format.h>

#include "runtime/device/device.hpp"

namespace kiln {
namespace {

void check_range(std::size_t offset, std::size_t length, std::size_t size) {
  if (offset > size || length > size - offset) {
    throw Error(ErrorCode::bad_input, fmt::format("bytes {} to {} lie outside a device buffer of {}", offset,
                                                  offset + length, size));
  }
}

}  // namespace

DeviceBuffer::DeviceBuffer(std::shared_ptr<Device> device, std::size_t bytes, const std::string& name)
    : device_(std::move(device)), address_(device_->allocate(bytes, name)), bytes_(bytes) {}

DeviceBuffer::~DeviceBuffer() {
  if (device_) device_->release(address_);
}

void DeviceBuffer::write(std::span<const std::byte> data, std::size_t offset) {
  check_range(offset, data.size(), bytes_);
  if (!data.empty()) device_->write(address_ + offset, data);
}

void DeviceBuffer::read(std::span<std::byte> data, std::size_t offset) const {
  check_range(offset, data.size(), bytes_);
  if (!data.empty()) device_->read(address_ + offset, data);
}

void DeviceBuffer::fill(std::byte value) {
  if (bytes_ > 0) device_->fill(address_, value, bytes_);
}

}  // namespace kiln
