"""The library for Conan 2, without Python and without the command.

conan create .
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class Tensorbus(ConanFile):  # type: ignore[misc]
    name = "tensorbus"
    license = "Apache-2.0"
    description = "Tensors from one process to another, by reference"
    topics = ("ipc", "shared-memory", "tensors", "zero-copy")
    package_type = "shared-library"
    settings = ("os", "arch", "compiler", "build_type")
    exports = "VERSION"
    exports_sources = ("CMakeLists.txt", "LICENSE", "VERSION", "cmake/*", "include/*", "src/*")

    def set_version(self) -> None:
        self.version = (Path(self.recipe_folder) / "VERSION").read_text().strip()

    def validate(self) -> None:
        if self.settings.os != "Linux":
            from conan.errors import ConanInvalidConfiguration

            raise ConanInvalidConfiguration("tensorbus is for Linux")

    def layout(self) -> None:
        cmake_layout(self)

    def generate(self) -> None:
        toolchain: Any = CMakeToolchain(self)
        toolchain.cache_variables["TENSORBUS_BUILD_COMMAND"] = False
        toolchain.cache_variables["CMAKE_UNITY_BUILD"] = True
        toolchain.cache_variables["CMAKE_UNITY_BUILD_BATCH_SIZE"] = "10"
        toolchain.generate()

    def build(self) -> None:
        cmake: Any = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self) -> None:
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        cmake: Any = CMake(self)
        cmake.install()

    def package_info(self) -> None:
        # The package has CMake files of its own, with the right flags.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/tensorbus"]
        self.cpp_info.libs = ["tensorbus"]
