#pragma once

#include <tensorbus/tensorbus.hpp>

// What the service "image/mean" answers. In Python it would be
//
//   @dataclass
//   class Mean(tb.Message, name="example.Mean"):
//       mean: float
//       by_row: np.ndarray
struct Mean {
  double mean = 0;
  tensorbus::ArrayField by_row;
};
TENSORBUS_MESSAGE(Mean, "example.Mean", mean, by_row)
