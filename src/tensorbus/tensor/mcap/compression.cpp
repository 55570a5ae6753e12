#include "tensorbus/tensor/mcap/compression.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "tensorbus/tensor/mcap/mcap.hpp"

namespace tensorbus::tensor::mcap {
namespace {

constexpr int kZstdLevel = 1;           // the fastest regular level in its manual
constexpr unsigned kLz4Version = 100;   // LZ4F_VERSION
constexpr std::size_t kMaxFrames = 64;  // in one chunk: other writers may use several

[[noreturn]] void refuse_library(std::string_view name, const char* library, const char* package,
                                 const std::string& why) {
  throw Error(Code::kUnsupported, "compression '" + std::string(name) + "' needs " + library +
                                      ", which cannot be loaded: " + why +
                                      ". Install Debian's package " + package);
}

// Finds the functions of a library, which stays loaded.
class Library {
 public:
  Library(std::string_view name, const char* library, const char* package)
      : name_(name), library_(library), package_(package) {
    handle_ = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) refuse_library(name_, library_, package_, ::dlerror());
  }
  template <typename Function>
  void find(Function*& function, const char* symbol) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, symbol));
    if (function == nullptr)
      refuse_library(name_, library_, package_, std::string("it has no ") + symbol);
  }

 private:
  const std::string_view name_;
  const char* const library_;
  const char* const package_;
  void* handle_ = nullptr;
};

// The simple API of https://facebook.github.io/zstd/zstd_manual.html.
struct Zstd {
  std::size_t (*bound)(std::size_t) = nullptr;
  std::size_t (*compress)(void*, std::size_t, const void*, std::size_t, int) = nullptr;
  std::size_t (*decompress)(void*, std::size_t, const void*, std::size_t) = nullptr;
  unsigned (*is_error)(std::size_t) = nullptr;
  const char* (*error_name)(std::size_t) = nullptr;

  Zstd() {
    const Library library("zstd", "libzstd.so.1", "libzstd1");
    library.find(bound, "ZSTD_compressBound");
    library.find(compress, "ZSTD_compress");
    library.find(decompress, "ZSTD_decompress");
    library.find(is_error, "ZSTD_isError");
    library.find(error_name, "ZSTD_getErrorName");
  }
};

// lz4frame.h: MCAP's "lz4" is the frame format. Preferences and options may be null.
struct Lz4 {
  std::size_t (*bound)(std::size_t, const void*) = nullptr;
  std::size_t (*compress)(void*, std::size_t, const void*, std::size_t, const void*) = nullptr;
  std::size_t (*make_context)(void**, unsigned) = nullptr;
  std::size_t (*free_context)(void*) = nullptr;
  std::size_t (*decompress)(void*, void*, std::size_t*, const void*, std::size_t*,
                            const void*) = nullptr;
  unsigned (*is_error)(std::size_t) = nullptr;
  const char* (*error_name)(std::size_t) = nullptr;

  Lz4() {
    const Library library("lz4", "liblz4.so.1", "liblz4-1");
    library.find(bound, "LZ4F_compressFrameBound");
    library.find(compress, "LZ4F_compressFrame");
    library.find(make_context, "LZ4F_createDecompressionContext");
    library.find(free_context, "LZ4F_freeDecompressionContext");
    library.find(decompress, "LZ4F_decompress");
    library.find(is_error, "LZ4F_isError");
    library.find(error_name, "LZ4F_getErrorName");
  }
};

// Made at the first use and never destroyed. No lock is used: a forked child could inherit it held.
template <typename Functions>
const Functions& functions() {
  static constinit std::atomic<const Functions*> made{nullptr};
  const Functions* found = made.load(std::memory_order_acquire);  // pairs with the exchange
  if (found != nullptr) return *found;
  auto fresh = std::make_unique<const Functions>();
  if (made.compare_exchange_strong(found, fresh.get(), std::memory_order_acq_rel,
                                   std::memory_order_acquire))
    return *fresh.release();
  return *found;
}

[[noreturn]] void refuse_data(Compression how, const std::string& why) {
  refuse_record("its " + std::string(name_of(how)) + " data is damaged: " + why);
}

void require_filled(Compression how, std::size_t bytes, std::size_t expected) {
  if (bytes != expected)
    refuse_data(
        how, "it unpacks to " + std::to_string(bytes) + " bytes, not " + std::to_string(expected));
}

template <typename Functions>
void require_success(Compression how, const Functions& library, std::size_t result) {
  if (library.is_error(result) != 0) refuse_data(how, library.error_name(result));
}

void decompress_lz4(const Lz4& lz4, std::span<const std::byte> bytes, std::span<std::byte> to) {
  void* made = nullptr;
  require_success(Compression::kLz4, lz4, lz4.make_context(&made, kLz4Version));
  const std::unique_ptr<void, std::size_t (*)(void*)> context(made, lz4.free_context);
  std::size_t filled = 0;
  std::size_t hint = 1;  // 0: a frame is complete
  for (std::size_t calls = 0; !bytes.empty(); ++calls) {
    std::size_t written = to.size() - filled;
    std::size_t read = bytes.size();
    hint =
        lz4.decompress(context.get(), to.data() + filled, &written, bytes.data(), &read, nullptr);
    require_success(Compression::kLz4, lz4, hint);
    filled += written;
    bytes = bytes.subspan(read);
    if (read == 0 && written == 0) refuse_data(Compression::kLz4, "it unpacks to too many bytes");
    if (calls > kMaxFrames && written == 0)
      refuse_data(Compression::kLz4, "it has too many frames");
  }
  if (hint != 0) refuse_data(Compression::kLz4, "its last frame is not complete");
  require_filled(Compression::kLz4, filled, to.size());
}

}  // namespace

std::string_view name_of(Compression how) {
  if (how == Compression::kNone) return "";
  return how == Compression::kZstd ? "zstd" : "lz4";
}

Compression compression_named(std::string_view name) {
  for (const Compression how : {Compression::kNone, Compression::kZstd, Compression::kLz4})
    if (name == name_of(how)) return how;
  throw Error(Code::kUnsupported,
              "compression '" + std::string(name) + "' is not known: expected 'zstd' or 'lz4'");
}

void require_library(Compression how) {
  if (how == Compression::kZstd) (void)functions<Zstd>();
  if (how == Compression::kLz4) (void)functions<Lz4>();
}

void compress(Compression how, std::span<const std::byte> bytes, std::vector<std::byte>& to) {
  const std::size_t begin = to.size();
  const auto with_room = [&](std::size_t bound, auto work) {
    to.resize(begin + bound);
    to.resize(begin + work(to.data() + begin, bound));
  };
  if (how == Compression::kZstd) {
    const auto& zstd = functions<Zstd>();
    with_room(zstd.bound(bytes.size()), [&](void* at, std::size_t room) {
      const std::size_t made = zstd.compress(at, room, bytes.data(), bytes.size(), kZstdLevel);
      if (zstd.is_error(made) != 0)
        throw Error(Code::kOutOfMemory, std::string("zstd: ") + zstd.error_name(made));
      return made;
    });
  } else if (how == Compression::kLz4) {
    const auto& lz4 = functions<Lz4>();
    with_room(lz4.bound(bytes.size(), nullptr), [&](void* at, std::size_t room) {
      const std::size_t made = lz4.compress(at, room, bytes.data(), bytes.size(), nullptr);
      if (lz4.is_error(made) != 0)
        throw Error(Code::kOutOfMemory, std::string("lz4: ") + lz4.error_name(made));
      return made;
    });
  } else {
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
}

void decompress(Compression how, std::span<const std::byte> bytes, std::span<std::byte> to) {
  if (how == Compression::kZstd) {
    const auto& zstd = functions<Zstd>();
    const std::size_t made = zstd.decompress(to.data(), to.size(), bytes.data(), bytes.size());
    require_success(how, zstd, made);
    require_filled(how, made, to.size());
  } else if (how == Compression::kLz4) {
    decompress_lz4(functions<Lz4>(), bytes, to);
  } else {
    require_filled(how, bytes.size(), to.size());
    std::copy(bytes.begin(), bytes.end(), to.begin());
  }
}

}  // namespace tensorbus::tensor::mcap
