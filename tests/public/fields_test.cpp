#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <tensorbus/inspected.hpp>
#include <tensorbus/internal/fields.hpp>
#include <tensorbus/played.hpp>
#include <tensorbus/recorded.hpp>
#include <tensorbus/stats.hpp>
#include <utility>

namespace tensorbus {
namespace {

// Converts to the type of any field.
struct AnyField {
  template <typename Field>
  operator Field() const;
};
template <std::size_t>
using FieldAt = AnyField;

template <typename Struct, std::size_t... Numbers>
constexpr bool has_at_least(std::index_sequence<Numbers...>) {
  return requires { Struct{FieldAt<Numbers>{}...}; };
}
// The number of fields of an aggregate: the most initializers that it takes.
template <typename Struct, std::size_t Count = 0>
constexpr std::size_t fields_of() {
  if constexpr (has_at_least<Struct>(std::make_index_sequence<Count + 1>{}))
    return fields_of<Struct, Count + 1>();
  else
    return Count;
}

template <typename Struct>
class Fields : public ::testing::Test {};

using Structs =
    ::testing::Types<PeerName, LinkReport, PublisherStats, PublisherReport, SubscriberStats,
                     SubscriberReport, QueueStats, QueueClientReport, QueueReport, ShareReport,
                     LentReport, BorrowedReport, DeviceReport, MemoryReport, ParticipantReport,
                     Inspection, ArenaUse, RecorderStats, PlayerStats>;
TYPED_TEST_SUITE(Fields, Structs);

TYPED_TEST(Fields, are_all_listed_and_each_once) {
  TypeParam some;
  std::set<const void*> listed;
  std::set<std::string> names;
  const auto list = [&](const char* name, const auto& field) {
    EXPECT_TRUE(listed.insert(&field).second) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  };
  internal::list_fields(list, some);
  EXPECT_EQ(listed.size(), fields_of<TypeParam>());
}

}  // namespace
}  // namespace tensorbus
