"""`tensorbus recording import`: bags that the `rosbags` package has written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorbus as tb
from support.mcap_files import read_mcap
from tensorbus._cli.command import main
from tensorbus._recording.ros.images import layout_of

pytest.importorskip("typer")
pytest.importorskip("rosbags")
from rosbags import rosbag2
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.LATEST)
TIME = 1_700_000_000_000_000_000  # of the first message in a bag
STAMP = 1_600_000_000_000_000_007


def ros(name: str, *values: Any) -> Any:
    package, _, message = name.partition("/")
    return STORE.types[f"{package}/msg/{message}"](*values)


def header(stamp_ns: int = STAMP, frame: str = "map") -> Any:
    time = ros("builtin_interfaces/Time", *divmod(stamp_ns, 10**9))
    return ros("std_msgs/Header", time, frame)


def ros_image(encoding: str, pixels: np.ndarray[Any, Any], big: int = 0, pad: int = 0) -> Any:
    lines = pixels.reshape(pixels.shape[0], -1).view(np.uint8)
    lines = np.pad(lines, ((0, 0), (0, pad)))
    height, width = pixels.shape[:2]
    return ros(
        "sensor_msgs/Image", header(), height, width, encoding, big, lines.shape[1], lines.ravel()
    )


def ros_cloud(points: np.ndarray[Any, Any], big: int = 0) -> Any:
    numbers = {"u1": 2, "u2": 4, "u4": 6, "f4": 7, "f8": 8}
    fields = [
        ros("sensor_msgs/PointField", name, offset, numbers[dtype.str[1:]], 1)
        for name, (dtype, offset) in points.dtype.fields.items()  # type: ignore[union-attr]
    ]
    step, data = points.dtype.itemsize, np.frombuffer(points.tobytes(), np.uint8)
    return ros(
        "sensor_msgs/PointCloud2",
        header(),
        1,
        len(points),
        fields,
        bool(big),
        step,
        step * len(points),
        data,
        True,
    )


def write_bag(bag: Path, messages: dict[str, list[Any]], storage: str = "SQLITE3") -> Path:
    """A bag with the messages of each topic, one a millisecond."""
    plugin = rosbag2.StoragePlugin[storage]
    with rosbag2.Writer(bag, version=9, storage_plugin=plugin) as writer:
        time = TIME
        for topic, values in messages.items():
            name = values[0].__msgtype__
            connection = writer.add_connection(topic, name, typestore=STORE)
            for value in values:
                writer.write(connection, time, STORE.serialize_cdr(value, name))
                time += 1_000_000
    return bag


def imported(bag: Path, *options: str, status: int = 0) -> tb.Recording:
    path = bag.with_suffix(".mcap")
    assert main(["recording", "import", str(bag), str(path), "--overwrite", *options]) == status
    return tb.Recording(path)


def the_message(bag: Path, message: Any, **options: Any) -> Any:
    recording = imported(write_bag(bag, {"/topic": [message]}))
    (sample,) = recording.select("topic", **options)
    return sample.data


@pytest.mark.parametrize("storage", ["SQLITE3", "MCAP"])
def test_a_bag_becomes_a_recording(tmp_path: Path, storage: str) -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    bag = write_bag(
        tmp_path / "bag",
        {
            "/camera/image": [ros_image("bgr8", pixels + n) for n in range(3)],
            "/chatter": [ros("std_msgs/String", "hello")],
        },
        storage,
    )
    recording = imported(bag)
    assert recording.recovered == recording.damage == ""
    assert recording.topics.keys() == {"camera/image", "chatter"}
    assert recording.topics["camera/image"].types[0].startswith("tensorbus.ImageMessage\n")
    images = recording.select("camera/image", message_type=tb.ImageMessage)
    for number, sample in enumerate(images):
        assert (sample.data.data == pixels + number).all()
        assert (sample.data.encoding, sample.data.width, sample.data.height) == ("bgr8", 4, 2)
        assert sample.time_ns == TIME + number * 1_000_000
        assert sample.header.timestamp_ns == STAMP
        assert sample.header.sequence == number
    (text,) = recording.select("chatter", message_type=tb.StringMessage)
    assert text.data == tb.StringMessage("hello")
    assert text.header.timestamp_ns == text.time_ns == TIME + 3_000_000
    assert read_mcap(bag.with_suffix(".mcap")).messages == {"camera/image": 3, "chatter": 1}


def test_an_imported_recording_is_played(tmp_path: Path) -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    recording = imported(write_bag(tmp_path / "bag", {"/image": [ros_image("rgb8", pixels)]}))
    with (
        tb.Subscriber("image", tb.ImageMessage, timeout=30) as images,
        tb.Player(recording.path, paused=True) as player,
    ):
        assert player.wait_for_subscribers(timeout=30)
        player.resume()
        assert (images.receive().data.data == pixels).all()


@pytest.mark.parametrize("big", [0, 1])
@pytest.mark.parametrize(
    ("encoding", "dtype", "channels"),
    [
        ("mono8", "u1", 1),
        ("mono16", "u2", 1),
        ("rgba8", "u1", 4),
        ("bgr16", "u2", 3),
        ("32FC1", "f4", 1),
        ("16SC2", "i2", 2),
        ("bayer_rggb8", "u1", 1),
    ],
)
def test_images_have_their_dtype_and_shape(
    tmp_path: Path, encoding: str, dtype: str, channels: int, big: int
) -> None:
    shape = (3, 5, channels) if channels > 1 else (3, 5)
    pixels = np.arange(15 * channels).reshape(shape).astype(f"{'><'[1 - big]}{dtype}")
    found = the_message(
        tmp_path / "bag", ros_image(encoding, pixels, big, pad=3), message_type=tb.ImageMessage
    )
    assert found.data.dtype == np.dtype(dtype)
    assert found.data.shape == shape
    assert (found.data == pixels).all()


def test_encodings_without_a_dtype_are_dicts(tmp_path: Path) -> None:
    assert [layout_of(name) for name in ("yuv422", "32UC1", "8FC1", "", "8UC0x")] == [None] * 5
    found = the_message(tmp_path / "bag", ros_image("yuv422", np.zeros((2, 4), np.uint8)))
    assert found["encoding"] == "yuv422"
    assert found["header"]["stamp"] == {"sec": STAMP // 10**9, "nanosec": 7}
    assert found["data"].shape == (8,)


@pytest.mark.parametrize("big", [0, 1])
def test_point_clouds_have_points_colours_intensity_and_normals(tmp_path: Path, big: int) -> None:
    order = "><"[1 - big]
    names = ["x", "y", "z", "rgb", "intensity", "normal_x", "normal_y", "normal_z"]
    dtype = np.dtype({"names": [*names, "ring"], "formats": [f"{order}f4"] * 8 + [f"{order}u2"]})
    points = np.zeros(4, dtype)
    for column, name in enumerate(names):
        points[name] = np.arange(4) + 10 * column
    points["rgb"] = np.full(4, 0x0A141E, f"{order}u4").view(f"{order}f4")
    found = the_message(tmp_path / "bag", ros_cloud(points, big), message_type=tb.PointCloudMessage)
    assert found.points[1].tolist() == [1, 11, 21]
    assert found.colors.tolist() == [[10, 20, 30]] * 4
    assert found.intensity.tolist() == [40, 41, 42, 43]
    assert found.normals[0].tolist() == [50, 60, 70]
    assert (found.frame_id, found.points.dtype) == ("map", np.float32)


def test_poses_transforms_numbers_and_arrays_have_types(tmp_path: Path) -> None:
    turn = ros("geometry_msgs/Quaternion", 0.0, 0.0, 0.5**0.5, 0.5**0.5)
    pose = ros("geometry_msgs/Pose", ros("geometry_msgs/Point", 1.0, 2.0, 3.0), turn)
    transform = ros("geometry_msgs/Transform", ros("geometry_msgs/Vector3", 1.0, 2.0, 3.0), turn)
    dims = [ros("std_msgs/MultiArrayDimension", "", size, 0) for size in (2, 3)]
    layout = ros("std_msgs/MultiArrayLayout", dims, 0)
    values = {
        "pose": ros("geometry_msgs/PoseStamped", header(), pose),
        "transform": ros("geometry_msgs/TransformStamped", header(), "arm", transform),
        "int": ros("std_msgs/UInt64", 2**64 - 1),
        "float": ros("std_msgs/Float32", 1.5),
        "array": ros("std_msgs/Float32MultiArray", layout, np.arange(6, dtype=np.float32)),
        "time": ros("builtin_interfaces/Time", 5, 6),
        "header": header(frame="odom"),
    }
    recording = imported(write_bag(tmp_path / "bag", {f"/{k}": [v] for k, v in values.items()}))

    def read(topic: str, cls: type[Any]) -> Any:
        (sample,) = recording.select(topic, message_type=cls)
        return sample.data

    found = read("pose", tb.PoseMessage)
    assert found.position.tolist() == [1, 2, 3]
    assert found.orientation.tolist() == [0, 0, 0.5**0.5, 0.5**0.5]
    assert found.frame_id == "map"
    found = read("transform", tb.TransformMessage)
    matrix = [[0, -1, 0, 1], [1, 0, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]
    assert np.allclose(found.matrix, matrix)
    assert (found.frame_id, found.child_frame_id) == ("map", "arm")
    assert read("int", tb.IntMessage).data == 2**64 - 1
    assert read("float", tb.FloatMessage).data == 1.5
    assert read("array", tb.ArrayMessage).data.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read("time", tb.TimestampMessage) == tb.TimestampMessage(5, 6)
    assert read("header", tb.HeaderMessage).frame_id == "odom"


def test_all_others_are_dicts_with_arrays(tmp_path: Path) -> None:
    turn = ros("geometry_msgs/Quaternion", 0.0, 0.0, 0.0, 1.0)
    vector = ros("geometry_msgs/Vector3", 1.0, 2.0, 3.0)
    covariance = np.arange(9.0)
    imu = ros("sensor_msgs/Imu", header(), turn, covariance, vector, covariance, vector, covariance)
    jpeg = ros("sensor_msgs/CompressedImage", header(), "jpeg", np.arange(9, dtype=np.uint8))
    recording = imported(write_bag(tmp_path / "bag", {"/imu": [imu], "/jpeg": [jpeg]}))
    (sample,) = recording.select("imu")
    assert recording.topics["imu"].types == ()
    assert sample.data["angular_velocity"] == {"x": 1.0, "y": 2.0, "z": 3.0}
    assert sample.data["orientation_covariance"].tolist() == covariance.tolist()
    assert sample.header.timestamp_ns == STAMP
    (sample,) = recording.select("jpeg")
    assert (sample.data["format"], bytes(sample.data["data"])) == ("jpeg", bytes(range(9)))


def test_plain_keeps_every_field(tmp_path: Path) -> None:
    image = ros_image("rgb8", np.zeros((2, 4, 3), np.uint8))
    bag = write_bag(tmp_path / "bag", {"/image": [image], "/text": [ros("std_msgs/String", "a")]})
    recording = imported(bag, "image", "--plain")
    (sample,) = recording
    assert sample.data["header"]["frame_id"] == "map"
    assert sample.data["step"] == 12


def test_mistakes_are_named_and_leave_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag = write_bag(tmp_path / "bag", {"/text": [ros("std_msgs/String", "a")]})
    path = tmp_path / "out.mcap"
    for arguments, text in (
        ((str(tmp_path / "none"), str(path)), "missing"),
        ((str(tmp_path), str(path)), "metadata"),
        ((str(bag), str(path), "other"), "the bag has no 'other'; it has 'text'"),
        ((str(bag), str(bag / "metadata.yaml")), "exists"),
    ):
        assert main(["recording", "import", *arguments]) != 0
        assert text in " ".join(capsys.readouterr().err.split())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bag"]


def test_a_damaged_bag_is_named_and_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = [ros_image("mono8", np.zeros((99, 99), np.uint8))] * 20
    bag = write_bag(tmp_path / "bag", {"/image": images})
    (database,) = bag.glob("*.db3")
    database.write_bytes(database.read_bytes()[:60_000])
    assert main(["recording", "import", str(bag), str(tmp_path / "out.mcap")]) != 0
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "bag" in said
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bag"]


def test_a_bag_without_messages_becomes_a_recording_without_messages(tmp_path: Path) -> None:
    plugin = rosbag2.StoragePlugin.SQLITE3
    with rosbag2.Writer(tmp_path / "bag", version=9, storage_plugin=plugin) as writer:
        writer.add_connection("/text", "std_msgs/msg/String", typestore=STORE)
    assert len(imported(tmp_path / "bag")) == 0


@pytest.mark.parametrize("package", ["rosbags", "mcap"])
def test_a_missing_package_is_named(
    tmp_path: Path,
    package: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bag = write_bag(tmp_path / "bag", {"/text": [ros("std_msgs/String", "a")]})
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["recording", "import", str(bag), str(tmp_path / "out.mcap")]) == 1
    assert "pip install 'tensorbus[ros]'" in capsys.readouterr().err
