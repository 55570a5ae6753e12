// Receives images, and publishes each in grey, with the full range of brightness.
//
//   contrast IMAGES
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <opencv2/core.hpp>
#include <tensorbus/adapters/opencv.hpp>
#include <tensorbus/tensorbus.hpp>
#include <utility>

namespace {

using tensorbus::ImageMessage;

// Writes into shared memory: the result has the size and the type of the loan.
tensorbus::Loan stretched(tensorbus::Publisher& publisher, const cv::Mat& grey) {
  tensorbus::Loan loan = publisher.loan<std::uint8_t>({grey.rows, grey.cols});
  cv::Mat out = tensorbus::to_mat(loan);
  cv::normalize(grey, out, 0, 255, cv::NORM_MINMAX, CV_8U);
  return loan;
}

void run(int count) {
  tensorbus::Publisher publisher(
      "camera/grey", {.reliable = true, .type = tensorbus::message_type<ImageMessage>()});
  tensorbus::Subscriber subscriber("camera/image",
                                   {.type = tensorbus::message_type<ImageMessage>()});
  publisher.wait_for_subscribers(1, std::chrono::minutes(1));
  for (const ImageMessage& image :
       tensorbus::messages<ImageMessage>(subscriber, std::chrono::minutes(1))) {
    // The same memory if the camera's encoding is mono8, else converted.
    const cv::Mat grey = tensorbus::to_mat(image, "mono8");
    publish(publisher, ImageMessage{.data = stretched(publisher, grey),
                                    .encoding = "mono8",
                                    .width = grey.cols,
                                    .height = grey.rows});
    if (--count == 0) return;
  }
  throw tensorbus::Error(tensorbus::Code::kTimeout, "no image came in a minute");
}

}  // namespace

int main(int argc, char** argv) try {
  run(argc > 1 ? std::atoi(argv[1]) : 100);
} catch (const tensorbus::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
