#pragma once

// Tensorbus for C++: includes everything for publishing, receiving, sharing and queueing tensors.
//
// These headers are compiled with the program. Of libtensorbus they use only the functions of
// <tensorbus/tensorbus.h>, whose ABI is stable. So they work with any compiler, and with the
// library of any later version with the same soname (docs/c.md).
#include <tensorbus/array_view.hpp>
#include <tensorbus/client.hpp>
#include <tensorbus/content.hpp>
#include <tensorbus/device.hpp>
#include <tensorbus/dims.hpp>
#include <tensorbus/dtype.hpp>
#include <tensorbus/error.hpp>
#include <tensorbus/executor.hpp>
#include <tensorbus/file.hpp>
#include <tensorbus/file_options.hpp>
#include <tensorbus/handle.hpp>
#include <tensorbus/id.hpp>
#include <tensorbus/inspected.hpp>
#include <tensorbus/inspection.hpp>
#include <tensorbus/layout.hpp>
#include <tensorbus/listed.hpp>
#include <tensorbus/listing.hpp>
#include <tensorbus/loan.hpp>
#include <tensorbus/log.hpp>
#include <tensorbus/message.hpp>
#include <tensorbus/message_enum.hpp>
#include <tensorbus/message_type.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/origin.hpp>
#include <tensorbus/outcome.hpp>
#include <tensorbus/parents.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/played.hpp>
#include <tensorbus/player.hpp>
#include <tensorbus/publisher.hpp>
#include <tensorbus/queue.hpp>
#include <tensorbus/recorded.hpp>
#include <tensorbus/recorder.hpp>
#include <tensorbus/recording.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/sample_header.hpp>
#include <tensorbus/service.hpp>
#include <tensorbus/service_error.hpp>
#include <tensorbus/share.hpp>
#include <tensorbus/standard_messages.hpp>
#include <tensorbus/stats.hpp>
#include <tensorbus/subscriber.hpp>
#include <tensorbus/tensor.hpp>
#include <tensorbus/typed_message.hpp>
#include <tensorbus/value.hpp>
