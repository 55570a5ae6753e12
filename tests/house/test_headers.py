"""The pages that docs/site makes of the public headers."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

from support.repository import ROOT

sys.path.insert(0, str(ROOT / "docs/site"))

from headers import page_of, pages

HEADER = """
#pragma once
#include <span>
// Cameras, and what they see.

namespace bus {
namespace internal {
class Hidden;  // somewhere else
// Of no interest.
struct Detail { int number; };
}  // namespace internal

// What a camera sees. A frame that was `dropped` is counted.
//
// - an item that is
//   two lines long
//
//   Camera camera("left");
//
//   camera.frame();  // "braces { in text"
//
// Thread-safe.
class BUS_API Camera : public Base {
 public:
  // Throws Error(kClosed) for a <name> that *nobody* has.
  explicit Camera(const std::string& name = {}, int depth = 4)
      : name_{name}, depth_(depth) {}
  Camera(Camera&&) noexcept;
  ~Camera();  // close()

  // The pixels.
  template <typename T>
  std::span<T> as() const {
    if (depth_ > 0) return {};
    return {data(), 4};
  }
  bool operator==(const Camera&) const noexcept;

 private:
  friend class Bus;
  void secret();
  int depth_ = 0;
};

// How to open one.
struct Options {
  int depth = 4;  // how many wait
  std::string name{};
};

enum class Outcome { kDone, kTimedOut };

// One of two: docs/worker_pool.md.
Outcome wait(std::chrono::nanoseconds timeout);
Outcome poll();

using GiveUp = std::function<bool()>;
}  // namespace bus

// Declares a type.
#define BUS_MESSAGE(Struct, name) \\
  template <>                     \\
  struct bus::Type<Struct> {};

// How it does.
#define BUS_HELPER_(x) x
"""


def page() -> str:
    return page_of("bus/camera.hpp", HEADER)


def test_a_class_has_its_comment_its_example_and_its_public_members() -> None:
    text = page()
    assert "## Camera\n\nWhat a camera sees. A frame that was `dropped` is counted.\n\n" in text
    assert "\n\n- an item that is\n  two lines long\n\n" in text
    assert '```cpp\nCamera camera("left");\n\ncamera.frame();  // "braces { in text"\n```' in text
    assert "Thread-safe.\n\n```cpp\nclass BUS_API Camera : public Base;\n```" in text
    assert "secret" not in text
    assert "depth_" not in text
    assert "friend" not in text


def test_members_are_shown_without_bodies_and_initialisers() -> None:
    text = page()
    constructors = """
        explicit Camera(const std::string& name = {}, int depth = 4);
        Camera(Camera&&) noexcept;
        ~Camera();  // close()
        """
    assert f"### Camera\n\n{throws()}\n\n```cpp\n{dedent(constructors).strip()}\n```" in text
    assert "template <typename T>\nstd::span<T> as() const;\nbool operator==" in text


def throws() -> str:
    return r"Throws Error(kClosed) for a \<name\> that \*nobody\* has."


def test_a_struct_of_values_and_an_enumeration_are_shown_whole() -> None:
    text = page()
    assert "struct Options {\n  int depth = 4;  // how many wait\n  std::string name{};\n};" in text
    assert "enum class Outcome { kDone, kTimedOut };" in text


def test_functions_below_one_comment_stay_together() -> None:
    comment = "One of two: [docs/worker_pool.md](/worker_pool.md)."
    declarations = "Outcome wait(std::chrono::nanoseconds timeout);\nOutcome poll();"
    assert f"## wait, poll\n\n{comment}\n\n```cpp\n{declarations}\n```" in page()


def test_what_is_internal_is_left_out() -> None:
    for word in ("Hidden", "Detail", "Of no interest", "How it does", "BUS_HELPER_"):
        assert word not in page()


def test_a_comment_that_stands_alone_and_a_macro_are_there() -> None:
    assert "Cameras, and what they see." in page()
    assert "Declares a type.\n\n```cpp\n#define BUS_MESSAGE(Struct, name)\n```" in page()


def test_c_headers_are_read_too() -> None:
    header = """
    #ifndef TB_H
    #define TB_H
    #ifdef __cplusplus
    extern "C" {
    #endif

    /* A publisher. Free it with tb_publisher_free(). */
    typedef struct tb_publisher tb_publisher;

    /* What became of a call.
     *
     *   tb_status status = tb_publish(publisher);
     */
    typedef enum tb_status { TB_OK = 0, TB_CLOSED } tb_status;

    // Publishes.
    TB_API tb_status tb_publish(tb_publisher* publisher);

    #ifdef __cplusplus
    }
    #endif
    #endif
    """
    text = page_of("tb.h", dedent(header))
    assert "A publisher. Free it with tb\\_publisher\\_free()." in text
    assert "typedef struct tb_publisher tb_publisher;" in text
    assert (
        "What became of a call.\n\n```cpp\ntb_status status = tb_publish(publisher);\n```" in text
    )
    assert "## tb\\_status" in text
    assert "## tb\\_publish\n\nPublishes." in text


def test_pages_are_made_wherever_headers_lie(tmp_path: Path) -> None:
    for name in ("bus/a.hpp", "bus/deep/b.hpp", "bus/c.h", "bus/detail/d.hpp", "bus/e.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("int x;\n")
    assert [page.name for page in pages(tmp_path)] == ["bus/a.hpp", "bus/c.h", "bus/deep/b.hpp"]
