#pragma once

// Processes that cannot use the GPU which the tensors of a topic lie on.

#include "ends.hpp"

namespace tensorbus::testing {

// Writers work on device 1 of these tests, which such a process does not see ...
inline const Environment kOtherDevice{{"CUDA_VISIBLE_DEVICES", "0"}};
// ... or cannot use at all.
inline const Environment kNoDriver{{"TENSORBUS_CUDA_DRIVER", "off"}};

inline void publish_on(Writer& w, int device, std::uint64_t seed) {
  bus::Loan loan = loan_of(w.publisher, device);
  w.stream.launch([words = words_of(loan), seed] { write_pattern(words, seed); });
  ASSERT_EQ(w.publisher.publish(std::move(loan), w.stream.get()).outcome, Outcome::kDone);
}

// One end of a topic, without a stream.
struct NoGpuReader {
  explicit NoGpuReader(const FreshDomain& domain, SubscriberOptions options = {})
      : us(domain.join()), subscriber("frames", options, us) {}
  bus::Sample next() {
    auto sample = subscriber.receive(kLong);
    EXPECT_TRUE(sample);
    return sample ? std::move(*sample) : bus::Sample();
  }
  bus::ParticipantRef us;
  bus::Subscriber subscriber;
};

inline std::optional<std::uint64_t> seed_in(const bus::Tensor& tensor) {
  return seed_of(words_of(tensor));
}

}  // namespace tensorbus::testing
