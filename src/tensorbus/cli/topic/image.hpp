#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tensorbus/tensor.hpp>

namespace tensorbus::cli {

// Draws an image on a terminal, two pixels in each character, one above the other; "" if the tensor
// is no image: of shape (height, width, 1 or 3), in main memory, of uint8 or of floats from 0 to 1.
//
//   encoding   "bgr8" and the like: the first channel is blue
//   columns    the width and the height of the drawing are at most so many pixels
std::string drawn(const Tensor& tensor, std::string_view encoding, std::size_t columns);

}  // namespace tensorbus::cli
