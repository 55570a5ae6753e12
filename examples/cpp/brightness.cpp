// Hears images (tensorbus.ImageMessage, of uint8) on the topic "image", and says how bright each is
// on the topic "brightness", in a type of its own. In Python it would be
//
//   @dataclass
//   class Brightness(tb.Message, name="example.Brightness"):
//       mean: float
//       by_row: np.ndarray
//       encoding: str
//
// Ends when there was no image for 10 seconds. With --types it prints the types that it knows.
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <numeric>
#include <string_view>
#include <tensorbus/tensorbus.hpp>

struct Brightness {
  double mean = 0;
  tensorbus::ArrayField by_row;
  std::string encoding;
};
TENSORBUS_MESSAGE(Brightness, "example.Brightness", mean, by_row, encoding)

namespace {

template <typename... Structs>
void print_types() {
  for (const tensorbus::MessageType& type : {tensorbus::message_type<Structs>()...})
    std::cout << type.name() << ' ' << type.fingerprint() << '\n';
}

void answer(const tensorbus::ImageMessage& image, tensorbus::Publisher& publisher) {
  const tensorbus::Tensor& pixels = image.data.tensor();
  const std::int64_t rows = pixels.shape()[0];
  tensorbus::Loan by_row = publisher.loan<float>({rows});
  const auto bytes = pixels.as<std::uint8_t>();
  const std::size_t row_bytes = bytes.size() / static_cast<std::size_t>(rows);
  float sum = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    const auto part = bytes.subspan(row * row_bytes, row_bytes);
    const auto total = std::accumulate(part.begin(), part.end(), std::uint64_t{0});
    by_row.as<float>()[row] = static_cast<float>(total) / static_cast<float>(row_bytes);
    sum += by_row.as<float>()[row];
  }
  publish(publisher, Brightness{.mean = sum / static_cast<float>(rows),
                                .by_row = by_row.view(),
                                .encoding = image.encoding});
}

}  // namespace

int main(int count, char** arguments) {
  using namespace tensorbus;
  if (count > 1 && std::string_view(arguments[1]) == "--types") {
    print_types<Brightness, StringMessage, IntMessage, FloatMessage, BytesMessage, DictMessage,
                ListMessage, ArrayMessage, MultiArrayMessage, TensorMessage, MultiTensorMessage,
                ImageMessage, PointCloudMessage, PoseMessage, TransformMessage, TimestampMessage,
                HeaderMessage>();
    return 0;
  }
  try {
    Subscriber subscriber("image", {.type = message_type<ImageMessage>()});
    Publisher publisher("brightness", {.type = message_type<Brightness>()});
    while (const auto sample = subscriber.receive(std::chrono::seconds(10)))
      answer(read_message<ImageMessage>(*sample), publisher);
  } catch (const std::exception& error) {  // tensorbus::Error: another type, or no uint8
    std::cerr << error.what() << '\n';
    return 1;
  }
}
