#include "tensorbus/link/wire/control_messages.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <ranges>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tensorbus/link/wire/dispatch.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus::link {
namespace {

// What visit() lists, by type.
struct FieldTypes {
  std::vector<std::string> types;
  void operator()(auto&... fields) { (add(fields), ...); }
  void add(const Id&) { types.emplace_back("id"); }
  void add(std::unsigned_integral auto number) {
    types.push_back("u" + std::to_string(8 * sizeof number));
  }
  void add(const std::string&) { types.emplace_back("string"); }
  template <typename Part>
  void add(const std::vector<Part>&) {
    FieldTypes parts;
    Part().visit(parts);
    std::string list = "list of";
    for (const std::string& type : parts.types) list += " " + type;
    types.push_back(list);
  }
  void add(HasFields auto& part) { part.visit(*this); }
};

// "`u32` link, code; `string` text"
template <typename Row>
std::string fields_of() {
  FieldTypes fields;
  typename Row::Message message;
  message.visit(fields);
  std::string text;
  std::string last;
  std::istringstream names{std::string(Row::kRow.fields)};
  for (const std::string& type : fields.types) {
    std::string name;
    if (!std::getline(names >> std::ws, name, ',')) ADD_FAILURE() << "a field has no name";
    text += type == last ? ", " : (last.empty() ? "`" : "; `") + type + "` ";
    text += name;
    last = type;
  }
  EXPECT_TRUE(names.eof()) << "a name has no field";
  return text;
}

std::string descriptors_of(const auto& row) {
  if (row.max_fds == 0) return "";
  std::string count = std::to_string(row.min_fds);
  if (row.max_fds == row.min_fds + 1) count += " or " + std::to_string(row.max_fds);
  if (row.max_fds > row.min_fds + 1) count += " to " + std::to_string(row.max_fds);
  return count + ": " + std::string(row.fds) + " ";
}

std::string table_of_the_code() {
  std::ostringstream table;
  for_each_control_message([&]<typename Row>(Row) {
    constexpr const auto& kRow = Row::kRow;
    SCOPED_TRACE(kRow.name);
    table << "| " << kRow.name << " | " << static_cast<int>(Row::Message::kType) << " | "
          << kRow.sent_by << " | " << fields_of<Row>() << " | " << descriptors_of(kRow) << "|\n";
  });
  return table.str();
}

std::string table_of_the_page() {
  std::ifstream page(TENSORBUS_DOCS_DIR "/internals/protocol.md");
  std::string table;
  std::string line;
  while (std::getline(page, line) && !line.starts_with("| type | number |")) {
  }
  std::getline(page, line);  // beneath the heads
  while (std::getline(page, line) && line.starts_with("|")) table += line + "\n";
  return table;
}

TEST(ControlMessageTable, is_the_one_on_the_page) {
  EXPECT_EQ(table_of_the_page(), table_of_the_code());
}

TEST(ControlMessageTable, has_each_number_and_name_once) {
  std::set<ControlType> numbers;
  std::set<std::string_view> names;
  for_each_control_message([&]<typename Row>(Row) {
    EXPECT_TRUE(numbers.insert(Row::Message::kType).second) << Row::kRow.name;
    EXPECT_TRUE(names.insert(Row::kRow.name).second) << Row::kRow.name;
    EXPECT_LE(Row::kRow.max_fds, kMaxControlFds);
  });
}

class Dispatch : public ::testing::Test {
 protected:
  struct Handler {
    std::string heard;
    void operator()(const Event& event, const platform::Fd& fd) {
      heard = "EVENT " + std::to_string(event.number) + (fd ? " with" : " without");
    }
    void operator()(const Subscribe&, const platform::Fd& fd) {
      heard = fd ? "SUBSCRIBE with" : "SUBSCRIBE without";
    }
    void operator()(const Done&) { heard = "DONE"; }
    void operator()(const Unsubscribe&) { heard = "UNSUBSCRIBE"; }
  };

  // What the owner's end of a connection hears.
  template <typename Message>
  std::string heard(const Message& message, std::vector<platform::Fd> fds = {}) {
    near.send(message, std::move(fds));
    EXPECT_EQ(far.receive(received), Channel::State::kMessage);
    Handler handler;
    return dispatch<TakenBy::kInbound>(received, handler) ? handler.heard : "";
  }

  testing::SocketPair sockets = testing::connected_sockets();
  Channel near{std::move(sockets.one), [](bool) {}};
  Channel far{std::move(sockets.other), [](bool) {}};
  Channel::Received received;
};

TEST_F(Dispatch, hands_each_message_in_with_its_descriptor) {
  EXPECT_EQ(heard(Done{1}), "DONE");
  EXPECT_EQ(heard(Event{7}, testing::fds_of(testing::some_pipe())), "EVENT 7 with");
  EXPECT_EQ(heard(Subscribe{}), "SUBSCRIBE without");
  EXPECT_EQ(heard(Subscribe{}, testing::fds_of(testing::some_pipe())), "SUBSCRIBE with");
}

TEST_F(Dispatch, leaves_the_messages_of_others) {
  EXPECT_EQ(heard(Ended{1}), "");
  EXPECT_EQ(heard(Attach{}), "");
  received.header.type = static_cast<ControlType>(0xffff);
  EXPECT_FALSE(dispatch<TakenBy::kInbound>(received, Handler()));
}

TEST_F(Dispatch, refuses_descriptors_that_the_table_does_not_allow) {
  EXPECT_THROW(heard(Event{1}), Error);
  EXPECT_THROW(heard(Done{1}, testing::fds_of(testing::some_pipe())), Error);
  EXPECT_THROW(heard(Subscribe{}, testing::fds_of(testing::some_pipe(), testing::some_pipe())),
               Error);
}

}  // namespace
}  // namespace tensorbus::link
