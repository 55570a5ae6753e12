#pragma once

#include <tensorbus/internal/few.hpp>  // as programs have it
