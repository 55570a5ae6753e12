#pragma once

#include <tensorbus/dims.hpp>  // as programs see it
