"""Random faults of networks, bridges and programs, while every byte that crosses is checked.

`scripts/deep bridge` runs it, and tests/python/bridge/test_bridge_storm.py a short one:
python -m bridge_storm.
"""
