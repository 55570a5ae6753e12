#include "tensorbus/cli/topic/image.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <optional>

#include "tensorbus/cli/values/half.hpp"

namespace tensorbus::cli {
namespace {

using Pixel = std::array<std::uint8_t, 3>;  // red, green, blue

// An image of which each pixel stands for `step` x `step` pixels of the tensor.
class Picture {
 public:
  Picture(const Tensor& tensor, bool blue_first, std::int64_t step)
      : tensor_(tensor), blue_first_(blue_first), step_(step) {}

  std::int64_t height() const { return (tensor_.shape()[0] + step_ - 1) / step_; }
  std::int64_t width() const { return (tensor_.shape()[1] + step_ - 1) / step_; }
  // Returns the pixel; nothing for a float that is not from 0 to 1.
  std::optional<Pixel> at(std::int64_t row, std::int64_t column) const {
    Pixel pixel{};
    const std::int64_t channels = tensor_.shape()[2];
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::int64_t channel = channels == 1 ? 0 : blue_first_ ? 2 - i : i;
      const auto value = element(row * step_, column * step_, channel);
      if (!value) return std::nullopt;
      pixel[static_cast<std::size_t>(i)] = *value;
    }
    return pixel;
  }

 private:
  template <typename T>
  T read(std::int64_t offset) const {
    T value{};
    std::memcpy(&value, tensor_.data() + offset * static_cast<std::int64_t>(sizeof value),
                sizeof value);
    return value;
  }
  std::optional<std::uint8_t> element(std::int64_t row, std::int64_t column,
                                      std::int64_t channel) const {
    const Dims& strides = tensor_.strides();
    const std::int64_t offset = row * strides[0] + column * strides[1] + channel * strides[2];
    if (tensor_.dtype() == DType::kUInt8) return read<std::uint8_t>(offset);
    const double value = tensor_.dtype() == DType::kFloat16
                             ? static_cast<double>(read<Half>(offset))
                         : tensor_.dtype() == DType::kFloat32 ? double{read<float>(offset)}
                                                              : read<double>(offset);
    if (!(value >= 0 && value <= 1)) return std::nullopt;
    return static_cast<std::uint8_t>(value * 255);
  }

  const Tensor& tensor_;
  const bool blue_first_;
  const std::int64_t step_;
};

bool is_image(const Tensor& tensor) {
  const Dims& shape = tensor.shape();
  const DType dtype = tensor.dtype();
  return tensor.device().is_host() && shape.size() == 3 && (shape[2] == 1 || shape[2] == 3) &&
         shape[0] > 0 && shape[1] > 0 &&
         (dtype == DType::kUInt8 || dtype == DType::kFloat16 || dtype == DType::kFloat32 ||
          dtype == DType::kFloat64);
}

bool is_blue_first(std::string_view encoding) {
  constexpr std::string_view kBlueFirst = "bgr";
  return encoding.size() >= kBlueFirst.size() &&
         std::equal(kBlueFirst.begin(), kBlueFirst.end(), encoding.begin(),
                    [](char wanted, char given) {
                      return wanted == std::tolower(static_cast<unsigned char>(given));
                    });
}

std::string colour(const Pixel& pixel) {
  return std::to_string(pixel[0]) + ';' + std::to_string(pixel[1]) + ';' + std::to_string(pixel[2]);
}

}  // namespace

std::string drawn(const Tensor& tensor, std::string_view encoding, std::size_t columns) {
  if (!is_image(tensor) || columns == 0) return "";
  const auto most = static_cast<std::int64_t>(columns);
  const std::int64_t longest = std::max(tensor.shape()[0], tensor.shape()[1]);
  const Picture picture(tensor, is_blue_first(encoding), (longest + most - 1) / most);
  std::string text;
  for (std::int64_t row = 0; row < picture.height(); row += 2) {
    for (std::int64_t column = 0; column < picture.width(); ++column) {
      const auto above = picture.at(row, column);
      const auto below = row + 1 < picture.height() ? picture.at(row + 1, column) : above;
      if (!above || !below) return "";
      text += "\x1b[38;2;" + colour(*above);
      if (row + 1 < picture.height()) text += ";48;2;" + colour(*below);
      text += "m\u2580\x1b[0m";
    }
    text += '\n';
  }
  return text;
}

}  // namespace tensorbus::cli
