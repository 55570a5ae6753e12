#pragma once

#include <tensorbus/dtype.hpp>  // as programs see it
