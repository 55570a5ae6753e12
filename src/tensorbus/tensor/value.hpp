#pragma once

#include <tensorbus/value.hpp>  // as programs see it
