"""Run this in one terminal, and subscriber.py in another; in any order, as many as you like."""

import time

import torch

import tensorbus as tb

with tb.Publisher("hello") as publisher:
    for count in range(100):
        publisher.publish({"count": count, "multiples": torch.arange(5.0) * count})
        time.sleep(0.5)
