#pragma once

// Kept until 1.0: the former path of this header.
#include <tensorbus/values/array_view.hpp>
