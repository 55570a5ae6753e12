#pragma once

#include <tensorbus/options.hpp>  // as programs see it
#include <tensorbus/stats.hpp>
