#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tensorbus/typed_message.hpp>
#include <vector>

// The standard messages of docs/messages.md, as structs.
namespace tensorbus::inline v0 {

struct StringMessage {
  std::string data;
};
struct IntMessage {
  std::int64_t data = 0;
};
struct FloatMessage {
  double data = 0;
};
struct BytesMessage {
  Value::Bytes data;
};
struct DictMessage {
  Value::Map data;  // without tensors; with them, read Sample::fields()
};
struct ListMessage {
  std::vector<Value> data;
};
struct ArrayMessage {
  ArrayField data;
  std::string name{};
  std::string frame_id{};
};
struct MultiArrayMessage {
  std::map<std::string, ArrayField> arrays;
  std::string frame_id{};
};
struct TensorMessage {
  TorchField data;
  std::string name{};
};
struct MultiTensorMessage {
  std::map<std::string, TorchField> tensors;
};
struct ImageMessage {
  ArrayField data;  // (height, width, channels)
  std::string encoding = "rgb8";
  std::int64_t width = 0;
  std::int64_t height = 0;
};
struct PointCloudMessage {
  ArrayField points;  // (N, 3)
  std::optional<ArrayField> colors{};
  std::optional<ArrayField> intensity{};
  std::optional<ArrayField> normals{};
  std::string frame_id{};
};
struct PoseMessage {
  ArrayField position;     // (3)
  ArrayField orientation;  // x, y, z, w
  std::string frame_id{};
  std::string child_frame_id{};
};
struct TransformMessage {
  ArrayField matrix;  // (4, 4)
  std::string frame_id{};
  std::string child_frame_id{};
};
struct TimestampMessage {
  std::int64_t sec = 0;
  std::int64_t nanosec = 0;
};
struct HeaderMessage {
  std::int64_t stamp_sec = 0;
  std::int64_t stamp_nanosec = 0;
  std::string frame_id{};
  std::int64_t sequence = 0;
};

}  // namespace tensorbus::inline v0

TENSORBUS_MESSAGE(tensorbus::StringMessage, "tensorbus.StringMessage", data)
TENSORBUS_MESSAGE(tensorbus::IntMessage, "tensorbus.IntMessage", data)
TENSORBUS_MESSAGE(tensorbus::FloatMessage, "tensorbus.FloatMessage", data)
TENSORBUS_MESSAGE(tensorbus::BytesMessage, "tensorbus.BytesMessage", data)
TENSORBUS_MESSAGE(tensorbus::DictMessage, "tensorbus.DictMessage", data)
TENSORBUS_MESSAGE(tensorbus::ListMessage, "tensorbus.ListMessage", data)
TENSORBUS_MESSAGE(tensorbus::ArrayMessage, "tensorbus.ArrayMessage", data, name, frame_id)
TENSORBUS_MESSAGE(tensorbus::MultiArrayMessage, "tensorbus.MultiArrayMessage", arrays, frame_id)
TENSORBUS_MESSAGE(tensorbus::TensorMessage, "tensorbus.TensorMessage", data, name)
TENSORBUS_MESSAGE(tensorbus::MultiTensorMessage, "tensorbus.MultiTensorMessage", tensors)
TENSORBUS_MESSAGE(tensorbus::ImageMessage, "tensorbus.ImageMessage", data, encoding, width, height)
TENSORBUS_MESSAGE(tensorbus::PointCloudMessage, "tensorbus.PointCloudMessage", points, colors,
                  intensity, normals, frame_id)
TENSORBUS_MESSAGE(tensorbus::PoseMessage, "tensorbus.PoseMessage", position, orientation, frame_id,
                  child_frame_id)
TENSORBUS_MESSAGE(tensorbus::TransformMessage, "tensorbus.TransformMessage", matrix, frame_id,
                  child_frame_id)
TENSORBUS_MESSAGE(tensorbus::TimestampMessage, "tensorbus.TimestampMessage", sec, nanosec)
TENSORBUS_MESSAGE(tensorbus::HeaderMessage, "tensorbus.HeaderMessage", stamp_sec, stamp_nanosec,
                  frame_id, sequence)
