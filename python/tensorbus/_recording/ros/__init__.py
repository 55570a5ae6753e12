"""Import of ROS bags, which the `rosbags` package reads."""
