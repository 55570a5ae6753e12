#pragma once

#include <tensorbus/device.hpp>  // as programs see it
