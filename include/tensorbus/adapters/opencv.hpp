#pragma once

// For programs with OpenCV 4 (tested: 4.6); needs its core module only. Converts received tensors
// and loans to cv::Mat, and cv::Mat to views for publishing, without a copy.
#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <opencv2/core.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tensorbus/loan.hpp>
#include <tensorbus/message_fields.hpp>
#include <tensorbus/standard_messages.hpp>
#include <tensorbus/tensor.hpp>
#include <tensorbus/values/array_view.hpp>
#include <tensorbus/values/dtype.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <utility>
#include <vector>

namespace tensorbus::inline v0 {

namespace internal {

struct MatDepth {
  DType dtype;
  int depth;
};
inline constexpr auto kMatDepths = std::to_array<MatDepth>({{DType::kUInt8, CV_8U},
                                                            {DType::kInt8, CV_8S},
                                                            {DType::kUInt16, CV_16U},
                                                            {DType::kInt16, CV_16S},
                                                            {DType::kInt32, CV_32S},
                                                            {DType::kFloat16, CV_16F},
                                                            {DType::kFloat32, CV_32F},
                                                            {DType::kFloat64, CV_64F},
                                                            {DType::kBool, CV_8U}});

inline int mat_depth_of(DType dtype) {
  for (const MatDepth& each : kMatDepths)
    if (each.dtype == dtype) return each.depth;
  throw Error(Code::kUnsupported, "OpenCV has no matrices of " + std::string(name_of(dtype)) +
                                      ": publish another dtype, or use data()");
}

inline constexpr std::size_t kMaxMatDims = 32;  // CV_MAX_DIM

// A layout in the form of cv::Mat: the last of three dimensions is that of the channels.
struct MatLayout {
  std::vector<int> sizes;
  std::vector<std::size_t> steps;  // in bytes
  int type = 0;
};

inline int mat_size(std::int64_t size) {
  if (size > INT_MAX)
    refuse("tensor", "has a dimension of " + std::to_string(size) +
                         " elements, more than a cv::Mat can have: use view(), or data()");
  return static_cast<int>(size);
}

inline std::int64_t channels_of(const Layout& layout) {
  if (layout.shape.size() != 3) return 1;
  const std::int64_t channels = layout.shape[2];
  if (channels < 1 || channels > CV_CN_MAX)
    refuse("tensor", "has " + std::to_string(channels) +
                         " channels (the last of three dimensions), and a cv::Mat has 1 to " +
                         std::to_string(CV_CN_MAX) +
                         ": publish (height, width, channels), or two or four dimensions");
  return channels;
}

// Returns the stride of a dimension, which must be one of cv::Mat's: at least `least` elements, or
// exactly if `packed`. The stride of a single element, or of none, is never used.
inline std::int64_t mat_stride(const Layout& layout, std::size_t axis, std::int64_t least,
                               bool packed) {
  const std::int64_t stride = layout.strides[axis];
  if (layout.shape[axis] <= 1 || layout.elements() == 0) return least;
  if (packed ? stride != least : stride < least)
    refuse("tensor", "has strides that a cv::Mat cannot have (dimension " + std::to_string(axis) +
                         " has stride " + std::to_string(stride) +
                         "): publish a contiguous array, or use view()");
  return stride;
}

inline MatLayout mat_layout_of(const Layout& layout) {
  if (layout.shape.empty()) refuse("tensor", "has no dimensions: use as()");
  require_resolved(layout, "tensor");
  const std::int64_t channels = channels_of(layout);
  const std::size_t dims = layout.shape.size() == 3 ? 2 : layout.shape.size();
  const bool vector = dims == 1;  // becomes a column, whose rows may have any step
  if (dims > kMaxMatDims)
    refuse("tensor", "has more dimensions than a cv::Mat can have (" + std::to_string(kMaxMatDims) +
                         "): use view()");
  if (layout.shape.size() == 3) (void)mat_stride(layout, 2, 1, true);
  MatLayout made{std::vector<int>(dims), std::vector<std::size_t>(dims),
                 CV_MAKETYPE(mat_depth_of(layout.dtype), static_cast<int>(channels))};
  std::int64_t least = channels;
  for (std::size_t axis = dims; axis-- > 0;) {
    made.sizes[axis] = mat_size(layout.shape[axis]);
    const std::int64_t stride = mat_stride(layout, axis, least, axis + 1 == dims && !vector);
    made.steps[axis] = static_cast<std::size_t>(stride) * item_bytes(layout.dtype);
    least = stride * std::max<std::int64_t>(layout.shape[axis], 1);
  }
  if (vector) {
    made.sizes.push_back(1);
    made.steps.push_back(item_bytes(layout.dtype));
  }
  return made;
}

// Releases the memory of a matrix with its last header. OpenCV's own allocator makes all others.
class LeaseAllocator final : public cv::MatAllocator {
 public:
  static const LeaseAllocator& instance() {
    static const auto* const one = new LeaseAllocator;  // matrices may outlive static objects
    return *one;
  }
  // `keeper` keeps the memory of `mat`.
  void attach(cv::Mat& mat, std::shared_ptr<const void> keeper) const {
    auto made = std::make_unique<cv::UMatData>(this);
    made->data = made->origdata = mat.data;
    made->size = static_cast<std::size_t>(mat.dataend - mat.datastart);
    made->refcount = 1;
    made->allocatorContext = std::const_pointer_cast<void>(std::move(keeper));
    mat.u = made.release();
  }

  using AccessFlags = cv::AccessFlag;
  cv::UMatData* allocate(int dims, const int* sizes, int type, void* data, std::size_t* step,
                         AccessFlags flags, cv::UMatUsageFlags usage) const override {
    return cv::Mat::getStdAllocator()->allocate(dims, sizes, type, data, step, flags, usage);
  }
  bool allocate(cv::UMatData* data, AccessFlags, cv::UMatUsageFlags) const override {
    return data != nullptr;  // it is there already
  }
  void deallocate(cv::UMatData* data) const override { delete data; }
};

inline cv::Mat mat_over(std::byte* data, const Layout& layout) {
  const MatLayout made = mat_layout_of(layout);
  const int dims = static_cast<int>(made.sizes.size());
  if (layout.elements() == 0) return cv::Mat(dims, made.sizes.data(), made.type);
  require_alignment(data, std::min(item_bytes(layout.dtype), alignof(double)), "tensor");
  return cv::Mat(dims, made.sizes.data(), made.type, data, made.steps.data());
}

}  // namespace internal

// Makes a matrix over the memory of a received tensor. The lease is held while a header of the
// matrix (a copy, a row, a region) exists, in any thread. A tensor of three dimensions is (rows,
// columns, channels); one of any other number of dimensions has one channel, and a vector is a
// column. bool becomes CV_8U. OpenCV has no read-only matrices: writing to one whose tensor is not
// writable() ends the process. clone() makes a writable copy.
//
//   const cv::Mat image = tensorbus::to_mat(sample->tensor("image"));
//   cv::Mat edges;
//   cv::Canny(image, edges, 100, 200);
//
// Throws Error(kUnsupported) for elements that OpenCV lacks. Throws Error(kInvalidArgument) for a
// tensor on a GPU, for elements that are not aligned, and for a layout that OpenCV lacks: rows may
// be padded, but neither transposed, reversed nor repeated.
inline cv::Mat to_mat(const Tensor& tensor) {
  internal::require_host(tensor.device(), "tensor");
  cv::Mat mat = internal::mat_over(const_cast<std::byte*>(tensor.data()), tensor.layout());
  if (mat.data != nullptr && mat.u == nullptr)
    internal::LeaseAllocator::instance().attach(mat, std::make_shared<const Tensor>(tensor));
  return mat;
}

// Makes a matrix over a loan, to draw a result into shared memory. The matrix does not keep the
// loan: do not use it after the loan was published or destroyed. Throws as above.
//
//   tensorbus::Loan frame = publisher.loan<std::uint8_t>({1080, 1920, 3});
//   cv::Mat image = tensorbus::to_mat(frame);
//   cv::resize(picture, image, image.size());
//   publisher.publish(std::move(frame));
//
// OpenCV writes into the loan only if size and type of the result are those of the matrix. For
// another size or type OpenCV gives `image` new memory, and the loan stays as it was.
inline cv::Mat to_mat(const Loan& loan) {
  internal::require_host(loan.device(), "loan");
  return internal::mat_over(loan.data(), loan.layout());
}

// Describes a matrix for publishing, a queue or a share. Channels become the last dimension, if
// there is more than one. A matrix over a loan or a received tensor is sent by reference. Any other
// is copied once, by the call that gets the view, and must exist until then. Throws
// Error(kInvalidArgument) for a matrix without dimensions, Error(kUnsupported) for elements that
// cannot be sent.
//
//   publisher.publish(tensorbus::view_of(edges));
inline TensorView view_of(const cv::Mat& mat) {
  if (mat.dims == 0)
    throw Error(Code::kInvalidArgument, "an empty cv::Mat cannot be sent: it has no dimensions");
  const auto found = std::find_if(internal::kMatDepths.begin(), internal::kMatDepths.end(),
                                  [&](const auto& each) { return each.depth == mat.depth(); });
  if (found == internal::kMatDepths.end())
    throw Error(Code::kUnsupported, "matrices of OpenCV's depth " + std::to_string(mat.depth()) +
                                        " cannot be sent: convert them with convertTo()");
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  for (int axis = 0; axis < mat.dims; ++axis) {
    shape.push_back(mat.size[axis]);
    strides.push_back(static_cast<std::int64_t>(mat.step[axis] / mat.elemSize1()));
  }
  if (mat.channels() > 1) {
    shape.push_back(mat.channels());
    strides.push_back(1);
  }
  TensorView view;
  view.data = mat.data;
  view.layout = {found->dtype, Dims(std::span<const std::int64_t>(shape)),
                 Dims(std::span<const std::int64_t>(strides))};
  return view;
}

namespace internal {

// The encodings of ROS whose channels are known: y is the brightness.
struct ImageEncoding {
  std::string_view name;
  int depth;
  std::string_view channels;
};
inline constexpr auto kImageEncodings = std::to_array<ImageEncoding>({{"mono8", CV_8U, "y"},
                                                                      {"rgb8", CV_8U, "rgb"},
                                                                      {"bgr8", CV_8U, "bgr"},
                                                                      {"rgba8", CV_8U, "rgba"},
                                                                      {"bgra8", CV_8U, "bgra"},
                                                                      {"mono16", CV_16U, "y"},
                                                                      {"rgb16", CV_16U, "rgb"},
                                                                      {"bgr16", CV_16U, "bgr"},
                                                                      {"rgba16", CV_16U, "rgba"},
                                                                      {"bgra16", CV_16U, "bgra"}});

inline const ImageEncoding* image_encoding(std::string_view name) noexcept {
  for (const ImageEncoding& each : kImageEncodings)
    if (each.name == name) return &each;
  return nullptr;
}

// Throws if the encoding is known, and is not that of the matrix.
inline void require_encoding(const cv::Mat& mat, std::string_view name) {
  const ImageEncoding* const encoding = image_encoding(name);
  if (encoding == nullptr) return;
  const auto channels = static_cast<int>(encoding->channels.size());
  if (mat.type() != CV_MAKETYPE(encoding->depth, channels))
    throw Error(Code::kInvalidArgument, "an image of type " + cv::typeToString(mat.type()) +
                                            " is not of the encoding " + std::string(name));
}

// One row for each channel of `to`: the weights of the channels of `from`, and what is added.
inline cv::Mat channel_weights(const ImageEncoding& from, const ImageEncoding& to) {
  const auto rows = static_cast<int>(to.channels.size());
  const auto added = static_cast<int>(from.channels.size());
  cv::Mat weights = cv::Mat::zeros(rows, added + 1, CV_64F);
  for (int row = 0; row < rows; ++row) {
    const char wanted = to.channels[static_cast<std::size_t>(row)];
    for (int column = 0; column < added; ++column) {
      const char given = from.channels[static_cast<std::size_t>(column)];
      const double brightness = given == 'r' ? 0.299 : given == 'g' ? 0.587 : 0.114;
      if (given == wanted || (given == 'y' && wanted != 'a'))
        weights.at<double>(row, column) = 1;
      else if (wanted == 'y' && given != 'a')
        weights.at<double>(row, column) = brightness;
    }
    if (wanted == 'a' && from.channels.find('a') == std::string_view::npos)
      weights.at<double>(row, added) = to.depth == CV_8U ? 255 : 65535;
  }
  return weights;
}

}  // namespace internal

// Makes a message of an image, with its size and encoding. It keeps the matrix. Throws
// Error(kInvalidArgument) if the channels and the depth are not those of the encoding, and as
// view_of() does.
//
//   publish(publisher, tensorbus::image_message(frame));
inline ImageMessage image_message(const cv::Mat& image, std::string encoding = "bgr8") {
  internal::require_encoding(image, encoding);
  return {.data = ArrayField(view_of(image), std::make_shared<const cv::Mat>(image)),
          .encoding = std::move(encoding),
          .width = image.cols,
          .height = image.rows};
}

// Makes a matrix over the memory of a received image, in its encoding. Throws as
// to_mat(tensor) does.
inline cv::Mat to_mat(const ImageMessage& image) { return to_mat(image.data.tensor()); }

// Like to_mat(image), in this encoding: the same memory if it is the encoding of the image, else a
// converted copy. Converts between mono8, rgb8, bgr8, rgba8 and bgra8, and between the same of 16
// bits. Throws Error(kUnsupported) for any other conversion, Error(kInvalidArgument) if the
// channels and the depth of the image are not those of its encoding, and as to_mat(tensor) does.
//
//   const auto message = tensorbus::read_message<tensorbus::ImageMessage>(*sample);
//   cv::imshow("camera", tensorbus::to_mat(message, "bgr8"));
inline cv::Mat to_mat(const ImageMessage& image, std::string_view encoding) {
  cv::Mat mat = to_mat(image);
  internal::require_encoding(mat, image.encoding);
  if (image.encoding == encoding) return mat;
  const internal::ImageEncoding* const from = internal::image_encoding(image.encoding);
  const internal::ImageEncoding* const to = internal::image_encoding(encoding);
  if (from == nullptr || to == nullptr || from->depth != to->depth)
    throw Error(Code::kUnsupported, "cannot convert an image from " + image.encoding + " to " +
                                        std::string(encoding) +
                                        ": use to_mat(image), and cv::cvtColor()");
  cv::Mat converted;
  cv::transform(mat, converted, internal::channel_weights(*from, *to));
  return converted;
}

}  // namespace tensorbus::inline v0
