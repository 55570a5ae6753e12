// What holds of OpenCV's matrices over memory of the bus, in one process.
#include <array>
#include <cstdint>
#include <string>
#include <tensorbus/adapters/opencv.hpp>
#include <tensorbus/tensorbus.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "../checked.hpp"

namespace {

using tensorbus::Code;
using tensorbus::DType;
using tensorbus::Layout;
using tensorbus::TensorView;

bool equal(const cv::Mat& a, const cv::Mat& b) {
  return a.type() == b.type() && a.size == b.size && cv::norm(a, b, cv::NORM_INF) == 0;
}

cv::Mat random_image(int rows, int columns, int type) {
  cv::Mat image(rows, columns, type);
  cv::randu(image, 0, 200);
  return image;
}

void every_header_of_a_matrix_holds_the_lease() {
  Topic topic;
  const cv::Mat sent = random_image(4, 5, CV_8UC3);
  cv::Mat region;
  {
    const cv::Mat received = tensorbus::to_mat(topic.through(tensorbus::view_of(sent)));
    CHECKED(equal(received, sent));
    const cv::Mat copy = received;
    region = copy(cv::Rect(1, 1, 2, 2));
  }
  topic.subscriber.close();
  CHECKED(equal(region, sent(cv::Rect(1, 1, 2, 2))));
  CHECKED(topic.publisher.stats().bytes_in_flight > 0);
  std::thread([last = std::move(region)]() mutable { last.release(); }).join();
  CHECKED(topic.gets_all_back());
}

void a_matrix_that_gets_other_memory_returns_the_lease() {
  Topic topic;
  cv::Mat mat = tensorbus::to_mat(topic.through(tensorbus::view_of(random_image(4, 5, CV_8U))));
  mat.create(40, 50, CV_32F);
  mat = 1;
  CHECKED(topic.gets_all_back());
  CHECKED(cv::sum(mat)[0] == 2000);
}

void umats_and_clones_have_the_elements() {
  Topic topic;
  const cv::Mat sent = random_image(6, 7, CV_32F);
  cv::Mat received = tensorbus::to_mat(topic.through(tensorbus::view_of(sent)));
  const cv::Mat clone = received.clone();
  {
    const cv::UMat umat = received.getUMat(cv::ACCESS_READ);
    CHECKED(equal(umat.getMat(cv::ACCESS_READ), sent));
    received.release();
    CHECKED(equal(umat.getMat(cv::ACCESS_READ), sent));
  }
  CHECKED(topic.gets_all_back());
  CHECKED(equal(clone, sent));
}

void a_loan_is_drawn_into() {
  Topic topic;
  tensorbus::Loan loan = topic.publisher.loan<float>({2, 3});
  cv::Mat out = tensorbus::to_mat(loan);
  cv::multiply(cv::Mat::ones(2, 3, CV_32F), 7, out);
  CHECKED(out.data == reinterpret_cast<const std::uint8_t*>(loan.data()));
  const cv::Mat received = tensorbus::to_mat(topic.through(std::move(loan)));
  CHECKED(equal(received, cv::Mat(2, 3, CV_32F, cv::Scalar(7))));
  CHECKED(topic.publisher.stats().bytes_copied == 0);
}

void a_region_of_a_loan_is_not_copied() {
  Topic topic;
  const tensorbus::Loan loan = topic.publisher.loan<std::uint8_t>({4, 6, 3});
  cv::Mat image = tensorbus::to_mat(loan);
  cv::randu(image, 0, 200);
  const cv::Mat region = image(cv::Rect(1, 1, 3, 2));
  const tensorbus::Tensor tensor = topic.through(tensorbus::view_of(region));
  CHECKED(tensor.strides() == (tensorbus::Dims{18, 3, 1}));
  CHECKED(equal(tensorbus::to_mat(tensor), region));
  CHECKED(topic.publisher.stats().bytes_copied == 0);
}

void a_matrix_of_any_type_and_shape_arrives() {
  Topic topic;
  for (const int depth : {CV_8U, CV_8S, CV_16U, CV_16S, CV_32S, CV_16F, CV_32F, CV_64F}) {
    for (const int channels : {1, 2, 4, 5}) {
      cv::Mat sent(3, 4, CV_MAKETYPE(CV_8U, channels * static_cast<int>(CV_ELEM_SIZE1(depth))));
      cv::randu(sent, 0, 63);  // bytes that no depth reads as NaN
      sent = cv::Mat(3, 4, CV_MAKETYPE(depth, channels), sent.data).clone();
      const cv::Mat received = tensorbus::to_mat(topic.through(tensorbus::view_of(sent)));
      CHECKED(received.type() == sent.type() && received.size == sent.size);
      CHECKED(std::equal(sent.datastart, sent.dataend, received.datastart));
    }
  }
  const std::array<int, 4> sizes{2, 3, 4, 5};
  cv::Mat blob(4, sizes.data(), CV_32F);
  cv::randu(blob, 0, 1);
  CHECKED(equal(tensorbus::to_mat(topic.through(tensorbus::view_of(blob))), blob));
  CHECKED(equal(tensorbus::to_mat(topic.through(tensorbus::view_of(blob.clone()))), blob));
}

void a_column_of_a_matrix_keeps_its_stride() {
  Topic topic;
  const cv::Mat sent = random_image(4, 6, CV_16S);
  const tensorbus::Loan loan = topic.publisher.loan<std::int16_t>({4, 6});
  sent.copyTo(tensorbus::to_mat(loan));
  const TensorView column{loan.data() + 2 * sizeof(std::int16_t), {DType::kInt16, {4}, {6}}};
  CHECKED(equal(tensorbus::to_mat(topic.through(column)), sent.col(2)));
  CHECKED(topic.publisher.stats().bytes_copied == 0);
}

void what_is_empty_stays_empty() {
  Topic topic;
  const cv::Mat sent(0, 7, CV_8UC3);
  const cv::Mat received = tensorbus::to_mat(topic.through(tensorbus::view_of(sent)));
  CHECKED(received.empty() && received.type() == CV_8UC3 && received.cols == 7);
  const TensorView none{nullptr, {DType::kFloat32, {3, 0}, {0, 0}}};
  CHECKED(tensorbus::to_mat(topic.through(none)).rows == 3);
  CHECKED(refuses(Code::kInvalidArgument, [] { (void)tensorbus::view_of(cv::Mat()); }));
}

void a_layout_that_opencv_lacks_is_refused() {
  Topic topic;
  const std::vector<float> numbers(2000);
  const auto refused = [&](tensorbus::Dims shape, tensorbus::Dims strides, std::size_t first = 0,
                           Code code = Code::kInvalidArgument, DType dtype = DType::kFloat32) {
    const TensorView view{numbers.data() + first, {dtype, std::move(shape), std::move(strides)}};
    const tensorbus::Tensor tensor = topic.through(view);
    return refuses(code, [&] { (void)tensorbus::to_mat(tensor); });
  };
  CHECKED(refused({3, 4}, {1, 3}));               // transposed
  CHECKED(refused({3, 4}, {-4, 1}, 8));           // upside down
  CHECKED(refused({3, 4}, {4, -1}, 3));           // mirrored
  CHECKED(refused({3, 4}, {0, 1}));               // repeated rows
  CHECKED(refused({3, 4}, {2, 1}));               // overlapping rows
  CHECKED(refused({3, 4}, {8, 2}));               // every second column
  CHECKED(refused({2, 2, 3}, {6, 3, -1}, 2));     // channels the other way round
  CHECKED(refused({2, 2, 3}, {1, 2, 4}));         // planes
  CHECKED(refused({1, 2, 600}, {1200, 600, 1}));  // more channels than OpenCV has
  CHECKED(refused({}, {}));                       // no dimensions
  CHECKED(refused({4}, {1}, 0, Code::kUnsupported, DType::kInt64));
  CHECKED(!refused({1, 4}, {1, 1}));  // the stride of one row does not matter
}

void a_negative_view_of_pytorch_is_refused() {
  Topic topic;
  const std::array<float, 2> numbers{};
  const Layout layout =
      Layout::contiguous(DType::kFloat32, {1, 2}, tensorbus::TensorFlags::kNegative);
  const tensorbus::Tensor tensor = topic.through(TensorView{numbers.data(), layout});
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)tensorbus::to_mat(tensor); }));
}

void a_mask_of_bools_is_one_of_bytes() {
  Topic topic;
  const std::array<bool, 4> mask{true, false, true, true};
  const cv::Mat mat = tensorbus::to_mat(topic.through(TensorView::of(mask.data(), {2, 2})));
  CHECKED(mat.type() == CV_8U && cv::countNonZero(mat) == 3);
}

// What a subscriber of images gets of this one.
tensorbus::ImageMessage received_image(const cv::Mat& image, const std::string& encoding) {
  tensorbus::Publisher publisher("images", {.history = 1});
  tensorbus::Subscriber subscriber("images");
  tensorbus::publish(publisher, tensorbus::image_message(image, encoding));
  return tensorbus::read_message<tensorbus::ImageMessage>(subscriber.receive(kLong).value());
}

void an_image_arrives_in_its_encoding_and_in_others() {
  const cv::Mat bgr(3, 4, CV_8UC3, cv::Scalar(10, 20, 30));
  const tensorbus::ImageMessage image = received_image(bgr, "bgr8");
  CHECKED(image.width == 4 && image.height == 3 && image.encoding == "bgr8");
  CHECKED(equal(tensorbus::to_mat(image), bgr));
  CHECKED(tensorbus::to_mat(image, "bgr8").data == tensorbus::to_mat(image).data);
  const auto is = [&](std::string_view encoding, int type, const cv::Scalar& color) {
    return equal(tensorbus::to_mat(image, encoding), cv::Mat(3, 4, type, color));
  };
  CHECKED(is("rgb8", CV_8UC3, {30, 20, 10}));
  CHECKED(is("rgba8", CV_8UC4, {30, 20, 10, 255}));
  CHECKED(is("bgra8", CV_8UC4, {10, 20, 30, 255}));
  CHECKED(is("mono8", CV_8UC1, {22}));  // 0.299 * 30 + 0.587 * 20 + 0.114 * 10 = 21.85
  CHECKED(refuses(Code::kUnsupported, [&] { (void)tensorbus::to_mat(image, "mono16"); }));
  CHECKED(refuses(Code::kUnsupported, [&] { (void)tensorbus::to_mat(image, "yuv422"); }));
}

void a_grey_image_and_one_of_16_bits_are_converted() {
  const cv::Mat grey(2, 2, CV_8U, cv::Scalar(9));
  const cv::Mat colour = tensorbus::to_mat(received_image(grey, "mono8"), "rgba8");
  CHECKED(equal(colour, cv::Mat(2, 2, CV_8UC4, cv::Scalar(9, 9, 9, 255))));
  const cv::Mat deep(2, 2, CV_16UC4, cv::Scalar(1000, 2000, 30000, 5));
  const auto image = received_image(deep, "rgba16");
  CHECKED(equal(tensorbus::to_mat(image, "bgra16"),
                cv::Mat(2, 2, CV_16UC4, cv::Scalar(30000, 2000, 1000, 5))));
  CHECKED(equal(tensorbus::to_mat(received_image(deep(cv::Rect(0, 0, 1, 1)), "rgba16"), "bgr16"),
                cv::Mat(1, 1, CV_16UC3, cv::Scalar(30000, 2000, 1000))));
}

void an_image_of_another_encoding_than_it_says_is_refused() {
  const cv::Mat grey(2, 2, CV_8U, cv::Scalar(9));
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)tensorbus::image_message(grey); }));
  tensorbus::ImageMessage image = received_image(grey, "mono8");
  image.encoding = "rgb8";
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)tensorbus::to_mat(image, "bgr8"); }));
  image.encoding = "bayer_rggb8";  // whose channels are not known here
  CHECKED(equal(tensorbus::to_mat(image, "bayer_rggb8"), grey));
}

void a_message_keeps_its_image() {
  tensorbus::Publisher publisher("images", {.history = 1});
  cv::Mat image = random_image(3, 3, CV_8UC3);
  const cv::Mat expected = image.clone();
  const tensorbus::ImageMessage message = tensorbus::image_message(image);
  image = cv::Mat();
  tensorbus::publish(publisher, message);
  tensorbus::Subscriber subscriber("images");
  const tensorbus::Sample sample = subscriber.receive(kLong).value();
  CHECKED(equal(tensorbus::to_mat(sample.tensor("data")), expected));
}

// On the stand-in for CUDA's driver.
void a_tensor_on_a_gpu_is_refused() {
  Topic topic;
  const tensorbus::Loan loan = topic.publisher.loan<float>({3}, tensorbus::Device::cuda());
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)tensorbus::to_mat(loan); }));
}

}  // namespace

int main() {
  every_header_of_a_matrix_holds_the_lease();
  a_matrix_that_gets_other_memory_returns_the_lease();
  umats_and_clones_have_the_elements();
  a_loan_is_drawn_into();
  a_region_of_a_loan_is_not_copied();
  a_matrix_of_any_type_and_shape_arrives();
  a_column_of_a_matrix_keeps_its_stride();
  what_is_empty_stays_empty();
  a_layout_that_opencv_lacks_is_refused();
  a_negative_view_of_pytorch_is_refused();
  a_mask_of_bools_is_one_of_bytes();
  an_image_arrives_in_its_encoding_and_in_others();
  a_grey_image_and_one_of_16_bits_are_converted();
  an_image_of_another_encoding_than_it_says_is_refused();
  a_message_keeps_its_image();
  a_tensor_on_a_gpu_is_refused();
}
