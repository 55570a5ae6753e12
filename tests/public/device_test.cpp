// Memory of GPUs, on the stand-in for CUDA's driver.

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

int publish_on_device(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  Publisher publisher("frames", {}, participant);
  Loan loan = publisher.loan<float>({1000}, Device::cuda(0));
  REQUIRE_IN_ROLE(loan.device() == Device::cuda(0) && loan.data() != nullptr);
  REQUIRE_IN_ROLE(code_of([&] { (void)loan.as<float>(); }) == Code::kInvalidArgument);
  REQUIRE_IN_ROLE(code_of([&] { (void)loan.view<float, 1>(); }) == Code::kInvalidArgument);
  REQUIRE_IN_ROLE(participant.arena(Device::cuda(0)).used_bytes >= 4000);
  REQUIRE_IN_ROLE(publisher.wait_for_subscribers(1, kLong) == Outcome::kDone);
  REQUIRE_IN_ROLE(publisher.publish(std::move(loan)).outcome == Outcome::kDone);
  REQUIRE_IN_ROLE(eventually([&] { return publisher.subscribers() == 0; }));
  REQUIRE_IN_ROLE(publisher.stats().bytes_copied == 0);
  return 0;
}
const bool kPublishes = add_role("publish_on_device", publish_on_device);

int receive_on_device(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  Subscriber subscriber("frames", {}, participant);
  std::optional<Sample> sample = subscriber.receive(kLong);
  REQUIRE_IN_ROLE(sample.has_value());
  const Tensor tensor = sample->tensor();
  sample.reset();
  REQUIRE_IN_ROLE(tensor.device() == Device::cuda(0));
  REQUIRE_IN_ROLE(tensor.published_on() == Device::cuda(0) && tensor.data() != nullptr);
  REQUIRE_IN_ROLE(code_of([&] { (void)tensor.as<float>(); }) == Code::kInvalidArgument);
  REQUIRE_IN_ROLE(code_of([&] { (void)tensor.view<float, 1>(); }) == Code::kInvalidArgument);
  tensor.use_on(nullptr);
  tensor.use_on(nullptr, Device::cuda(0));
  REQUIRE_IN_ROLE(tensor.intact());
  return 0;
}
const bool kReceivesOnDevice = add_role("receive_on_device", receive_on_device);

TEST(ADevicesMemory, goes_to_another_process_by_reference) {
  const FreshDomain domain;
  const std::map<std::string, std::string> standin = {{"TENSORBUS_CUDA_DRIVER", TENSORBUS_STANDIN}};
  Process publisher("publish_on_device", {domain.path()}, standin);
  Process subscriber("receive_on_device", {domain.path()}, standin);
  EXPECT_EQ(subscriber.wait(), 0);
  EXPECT_EQ(publisher.wait(), 0);
}

}  // namespace
}  // namespace tensorbus
