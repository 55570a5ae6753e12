#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tensorbus::link {

// The owner's private record of the leases of a link that were not returned. The owner trusts no
// other record. A token is serial << 32 | index. A token that does not match is a borrower's bug
// and is refused. Not thread-safe: guarded by the publisher's mutex.
template <typename Sample>
class LeaseTable {
 public:
  explicit LeaseTable(std::uint32_t capacity) : rows_(capacity) {
    free_.reserve(capacity);
    for (std::uint32_t i = capacity; i-- > 0;) free_.push_back(i);
  }

  static std::size_t bytes_for(std::size_t capacity) noexcept {
    return capacity * (sizeof(Row) + sizeof(std::uint32_t));
  }

  std::size_t capacity() const noexcept { return rows_.size(); }
  bool full() const noexcept { return free_.empty(); }
  std::uint32_t outstanding() const noexcept {
    return static_cast<std::uint32_t>(rows_.size() - free_.size());
  }

  // The table must not be full. `published_ns` is for inspections.
  std::uint64_t issue(Sample sample, std::uint64_t published_ns = 0) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Row& row = rows_[index];
    row.sample = std::move(sample);
    row.published_ns = published_ns;
    row.out = true;
    return std::uint64_t{row.serial} << 32 | index;
  }

  std::optional<Sample> take_back(std::uint64_t token) noexcept {
    if (find(token) == nullptr) return std::nullopt;
    const auto index = static_cast<std::uint32_t>(token);
    Row& row = rows_[index];
    ++row.serial;
    row.out = false;
    free_.push_back(index);
    return std::move(row.sample);
  }

  // Returns null for a token that does not match.
  const Sample* find(std::uint64_t token) const noexcept {
    const auto index = static_cast<std::uint32_t>(token);
    if (index >= rows_.size()) return nullptr;
    const Row& row = rows_[index];
    return row.out && row.serial == token >> 32 ? &row.sample : nullptr;
  }

  // Calls `action` with each lent sample and the time of its publication.
  template <typename Action>
  void for_each(Action action) const {
    std::uint32_t left = outstanding();
    for (auto row = rows_.begin(); left != 0; ++row) {
      if (!row->out) continue;
      action(row->sample, row->published_ns);
      --left;
    }
  }

 private:
  struct Row {  // 32 bytes if Sample is a reference to a sample: a power of two
    Sample sample{};
    std::uint64_t published_ns = 0;
    std::uint32_t serial = 1;
    bool out = false;
  };

  std::vector<Row> rows_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tensorbus::link
