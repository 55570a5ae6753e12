#pragma once

#include <tensorbus/message_type.hpp>  // as programs see it
